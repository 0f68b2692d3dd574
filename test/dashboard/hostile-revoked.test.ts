/**
 * Requests that are held open while their permission ends: those that are finished after that change nothing. All changes of
 * the API and of the dashboard, over HTTPS.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fc } from '../support/fast-check.ts';
import type { Transaction } from 'kysely';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { Database } from '../../src/foundation/db/open.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { ENDPOINTS } from '../api/endpoints.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { until } from '../support/poll.ts';
import { rawConnection } from '../support/raw-http.ts';
import { scratch } from '../support/scratch.ts';
import { onDatabase } from '../support/users.ts';
import { addressOf, everything, FORM_TYPE, FORMS, type Ids, origin, place, tokenOf } from './hostile-place.ts';

/** How long a request has to be let in before its right ends, in ms. */
const LET_IN = 40;

const PUBLIC_KEY = `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${'A'.repeat(43)}`;

/** Fields with which these forms change something. */
const CHANGING: Readonly<Record<string, Record<string, string>>> = {
  '/dashboard/directories/:id/auth-mode': { auth_mode: 'both' },
  '/dashboard/directories/:id/delete': { confirmation: 'Acme' },
  '/dashboard/directories/:id/public-keys': { public_key: PUBLIC_KEY },
  '/dashboard/account/second-factor': { required: 'yes' },
};

type Revocation = (tx: Transaction<Tables>, id: string) => Promise<unknown>;

const OF_KEYS: Readonly<Record<string, Revocation>> = {
  revoked: (tx, id) => tx.updateTable('api_keys').set({ revoked_at: 1 }).where('id', '=', id).execute(),
  expired: (tx, id) => tx.updateTable('api_keys').set({ expires_at: 1 }).where('id', '=', id).execute(),
  // What a key is limited to never changes; this shows that it is looked at in the transaction.
  limited: (tx, id) => tx.updateTable('api_keys').set({ directories: '[]' }).where('id', '=', id).execute(),
  demoted: (tx, id) => tx.updateTable('api_keys').set({ role: 'member' }).where('id', '=', id).execute(),
};
const OF_USERS: Readonly<Record<string, Revocation>> = {
  'signed out': (tx, id) => tx.deleteFrom('user_sessions').where('user_id', '=', id).execute(),
  disabled: (tx, id) => tx.updateTable('users').set({ disabled_at: 1 }).where('id', '=', id).execute(),
  removed: (tx, id) => tx.deleteFrom('users').where('id', '=', id).execute(),
  demoted: (tx, id) => tx.updateTable('users').set({ role: 'member' }).where('id', '=', id).execute(),
  limited: (tx, id) => tx.updateTable('users').set({ directories: '[]' }).where('id', '=', id).execute(),
  'read-only': (tx, id) => tx.updateTable('users').set({ read_only: 1 }).where('id', '=', id).execute(),
};

interface Change {
  readonly method: string;
  readonly path: string;
  readonly type: string;
  readonly body: string;
  readonly isAdmins: boolean;
}

/** With what requests are made: its row's id, and the headers and fields that carry it. */
interface Holder {
  readonly id: string;
  readonly headers: string;
  readonly csrf: string;
  readonly ways: Readonly<Record<string, Revocation>>;
}

function apiChanges(ids: Ids): Change[] {
  return Object.entries(ENDPOINTS).flatMap(([name, { role, right }]) => {
    const [method = '', path = ''] = name.split(' ');
    if (method === 'GET') return [];
    const isFile = path.includes('/files/');
    const named = path
      .replace(':id', ids.directories)
      .replace(':path{.+}', 'new.csv')
      .replace(':upload_id', ids.files)
      .replace(':file_id', ids.partial)
      .replace(':delivery_id', ids.deliveries)
      .replace(':link_id', ids.links)
      .replace(':key_id', ids['api-keys'])
      .replace(':fingerprint{.+}', 'SHA256:x');
    const body = isFile ? 'content' : right === undefined ? '' : JSON.stringify(right);
    return [{ method, path: named, type: 'application/json', body, isAdmins: role === 'admin' }];
  });
}

function formChanges(ids: Ids): Change[] {
  return Object.entries(FORMS)
    .filter(([path, { by }]) => by !== 'anybody' && !/sign-(?:out|in)/.test(path))
    .map(([path, { by, fields }]) => ({
      method: 'POST',
      path: addressOf(path, ids),
      type: FORM_TYPE,
      body: new URLSearchParams(CHANGING[path] ?? fields ?? {}).toString(),
      isAdmins: by === 'admin',
    }));
}

/** A key or a session of its own, so that its end affects no other test. */
async function holder(berth: TestBerth, kind: 'key' | 'session'): Promise<Holder> {
  if (kind === 'key')
    return onDatabase(berth, async (database) => {
      const issuer = { database, clock: systemClock(), config: { environment: 'live' } } as const;
      const { id, key } = await createKey(issuer, { accountId: berth.accountId }, { role: 'admin', name: 'held' });
      return {
        id,
        csrf: '',
        ways: OF_KEYS,
        headers: `Authorization: Bearer ${key}\r\nIdempotency-Key: ${randomUUID()}\r\n`,
      };
    });
  using visitor = await signedIn(place(berth), berth.accountId);
  const csrf = `_csrf=${await tokenOf(visitor)}&`;
  const cookie = `Cookie: __Host-berth=${visitor.cookies.get('__Host-berth')}\r\nOrigin: ${origin(berth)}\r\n`;
  const { id } = await onDatabase(berth, ({ db }) =>
    db.selectFrom('users').select('id').where('email', '=', visitor.email).executeTakeFirstOrThrow(),
  );
  return { id, csrf, ways: OF_USERS, headers: cookie };
}

const TABLES = [
  'account_webhooks',
  'directories',
  'files',
  'placements',
  'public_keys',
  'deliveries',
  'events',
  'api_keys',
  'users',
  'user_links',
  'user_sessions',
  'recovery_codes',
  'kept_answers',
  'audit',
] as const;

/** Everything that a change could touch, except for the rows of the actor whose permission ends. */
async function stateOf({ db }: Database, without: string): Promise<string> {
  const tables = await Promise.all(TABLES.map((table) => db.selectFrom(table).selectAll().execute()));
  const accounts = await db.selectFrom('accounts').selectAll().execute();
  const isOther = (row: object): boolean => !('seen_at' in row) && !Object.values(row).includes(without);
  // Uses of keys are noted every half minute, whatever the requests were. A scan notes ctimes, which cannot be set.
  const noted = new Set(['last_used_at', 'ctime']);
  const replacer = (name: string, value: unknown): unknown => (noted.has(name) ? undefined : value);
  return JSON.stringify([accounts, ...tables.map((rows) => rows.filter(isOther))], replacer, 1);
}

/** The request in two parts: the second is all that is left to send. */
function partsOf({ method, path, type, body: fields }: Change, { headers, csrf }: Holder, port: number, cut: number) {
  const body = fields === '' && csrf === '' ? '' : csrf + fields;
  const framing = body === '' ? '' : `Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n`;
  const head = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n${headers}${framing}\r\n`;
  const at = Math.min(body.length, 1 + Math.floor(cut * body.length));
  return [head + body.slice(0, body.length - at), body.slice(body.length - at)] as const;
}

type Hold = 'body' | 'transaction';

/** Opens the requests, ends the right to make them, and finishes them. @returns their statuses. */
async function afterTheEnd(
  berth: TestBerth,
  database: Database,
  changes: readonly Change[],
  { by, way, hold, cut = 0 }: { by: Holder; way: string; hold: Hold; cut?: number },
): Promise<number[]> {
  const { port } = place(berth);
  const server = { port, ca: readFileSync(berth.config.tls.cert) };
  const held = await Promise.all(
    changes.map(async (change) => ({ at: await rawConnection(server), parts: partsOf(change, by, port, cut) })),
  );
  const revoke = by.ways[way];
  assert.ok(revoke);
  const send = (part: 0 | 1): void => held.forEach(({ at, parts }) => at.write(parts[part]));
  if (hold === 'body') {
    send(0);
    await wait(LET_IN);
    await database.db.transaction().execute((tx) => revoke(tx, by.id));
    send(1);
  } else {
    // Lets requests be identified, and holds up the transaction of their change.
    await database.db.transaction().execute(async (tx) => {
      await tx.selectFrom('accounts').select('id').where('id', '=', berth.accountId).forUpdate().execute();
      await tx.updateTable('users').set({ totp_step: 0 }).where('id', '=', by.id).execute();
      send(0);
      send(1);
      await wait(LET_IN);
      await revoke(tx, by.id);
    });
  }
  const statuses: number[] = [];
  for (const { at } of held) {
    await at.ended;
    statuses.push(Number(/^HTTP\/1\.1 (\d{3}) /.exec(at.received())?.[1] ?? 0));
    at[Symbol.dispose]();
  }
  return statuses;
}

/** A place with everything, and each change that can be asked for. */
async function withChanges(use: (berth: TestBerth, database: Database, changes: readonly Change[]) => Promise<void>) {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const ids = await everything(berth);
  await onDatabase(berth, async (database) => {
    // Placed files are recorded a moment later.
    await until('the file is recorded', async () => {
      const waiting = await database.db.selectFrom('placements').selectAll().execute();
      return waiting.length === 0;
    });
    await use(berth, database, [...apiChanges(ids), ...formChanges(ids)]);
  });
}

const kindOf = ({ path }: Change): 'key' | 'session' => (path.startsWith('/api/') ? 'key' : 'session');

test('no change is made after its key or session has ended, wherever its request was held', async () => {
  await withChanges(async (berth, database, changes) => {
    assert.ok(changes.length > 45, `only ${changes.length} changes are known`);
    for (const change of changes) {
      for (const hold of ['body', 'transaction'] as const) {
        const by = await holder(berth, kindOf(change));
        const ways = Object.keys(by.ways).filter((way) => way !== 'demoted' || change.isAdmins);
        const way = ways[(change.path.length + hold.length) % ways.length] ?? '';
        // What has no body cannot be held by it.
        const isHeld = hold === 'transaction' || change.body !== '' || kindOf(change) === 'session';
        if (!isHeld) continue;
        const before = await stateOf(database, by.id);
        const [status = 0] = await afterTheEnd(berth, database, [change], { by, way, hold });
        const what = `${change.method} ${change.path}, ${way}, held by its ${hold}: ${status}`;
        assert.equal(await stateOf(database, by.id), before, what);
        assert.ok([303, 401, 403, 404, 409, 422].includes(status), what);
      }
    }
  });
});

test('nor by several requests that are finished in any order', async () => {
  await withChanges(async (berth, database, changes) => {
    const sequence = fc.record({
      kind: fc.constantFrom('key' as const, 'session' as const),
      picks: fc.array(fc.nat(1000), { minLength: 2, maxLength: 5 }),
      way: fc.nat(10),
      hold: fc.constantFrom<Hold>('body', 'transaction'),
      cut: fc.double({ min: 0, max: 0.99, noNaN: true }),
    });
    await fc.assert(
      fc.asyncProperty(sequence, async ({ kind, picks, way: nth, hold, cut }) => {
        const by = await holder(berth, kind);
        const ways = Object.keys(by.ways).filter((way) => way !== 'demoted');
        const own = changes.filter((change) => kindOf(change) === kind && (change.body !== '' || hold !== 'body'));
        const chosen = picks.flatMap((pick) => own[pick % own.length] ?? []);
        const before = await stateOf(database, by.id);
        await afterTheEnd(berth, database, chosen, { by, way: ways[nth % ways.length] ?? '', hold, cut });
        assert.equal(await stateOf(database, by.id), before);
      }),
      { numRuns: 40 },
    );
  });
});

test('a request that waits as long, with a key that is still valid, is carried out', async () => {
  await withChanges(async (berth, database, changes) => {
    for (const kind of ['key', 'session'] as const) {
      const by = await holder(berth, kind);
      const change = changes.find(
        ({ path }) => path.endsWith('/directories') && path.startsWith('/api/') === (kind === 'key'),
      );
      assert.ok(change);
      const keeping = { ...by, ways: { kept: async () => undefined } };
      for (const hold of ['body', 'transaction'] as const) {
        const before = await stateOf(database, by.id);
        const [status] = await afterTheEnd(berth, database, [change], { by: keeping, way: 'kept', hold });
        assert.equal(status, kind === 'key' ? 201 : 303);
        // In the API, the second repeats the first.
        if (kind === 'session' || hold === 'body') assert.notEqual(await stateOf(database, by.id), before);
      }
    }
  });
});

test("the account's webhook and partial files are changed only with a key that is still valid", async () => {
  // An announced file is no partial one any more.
  for (const ends of [
    ['/api/v1/webhook', '/account/webhook', /^\/dashboard\/.*\/partial\/[^/]+\/announce$/],
    [/^\/dashboard\/.*\/partial\/[^/]+\/delete$/],
    [/^\/api\/.*\/partial\/[^/]+\/announce$/],
    [/^\/api\/.*\/partial\/[^/]+$/],
  ])
    await withChanges(async (berth, database, changes) => {
      for (const end of ends) {
        const change = changes.find(({ path }) => (typeof end === 'string' ? path.endsWith(end) : end.test(path)));
        assert.ok(change, String(end));
        const by = { ...(await holder(berth, kindOf(change))), ways: { kept: async () => undefined } };
        const before = await stateOf(database, by.id);
        const [status] = await afterTheEnd(berth, database, [change], { by, way: 'kept', hold: 'transaction' });
        const wanted = kindOf(change) === 'session' ? 303 : change.method === 'DELETE' ? 204 : 200;
        assert.equal(status, wanted, change.path);
        assert.notEqual(await stateOf(database, by.id), before, change.path);
      }
    });
});
