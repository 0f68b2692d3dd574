/**
 * Every page, form and preview of the dashboard with the largest inputs that it accepts: none of them may hold the event loop, since
 * that stops berth for everybody.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Insertable, Kysely } from 'kysely';
import { DAY, systemClock } from '../../src/foundation/base/clock.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { dashboardRoutes } from '../support/dashboard-routes.ts';
import { longestTurnMs } from '../support/loop-turns.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { onDatabase } from '../support/users.ts';
import { addressOf, everything, FORM_TYPE, FORMS, type Ids, origin, place, tokenOf } from './hostile-place.ts';

/** How long a request may hold the event loop, in ms. */
const MOST_MS = 50;
/** Of so many requests, the quickest counts: during the others, V8 may compile or collect garbage. */
const TRIES = 4;
/** More than any page lists, and any export reads at once. */
const MANY = 1100;
/** As many as a directory may have. */
const MOST_PUBLIC_KEYS = 100;

/** Every second character is hidden, so that a page shows it by its code point, in an element of its own. */
const hidden = (length: number): string => 'a\u202e'.repeat(length / 2);

/** As deep as a path can be, with names of 255 bytes. */
const pathOf = (index: number): string =>
  [...Array.from({ length: 15 }, () => hidden(126)), `${index}${hidden(100)}`].join('/');

const KINDS = ['directory', 'file', 'partial', 'checking', 'delivery', 'link', 'key', 'user'] as const;
const idOf = (kind: (typeof KINDS)[number], index: number): string =>
  `00000000-0000-4000-8${String(KINDS.indexOf(kind)).padStart(3, '0')}-${String(index).padStart(12, '0')}`;

/** What a customer can leave in a directory for somebody to click on. A preview reads 24 KiB. */
const PREVIEWED: Readonly<Record<string, string>> = {
  'columns.csv': `x${','.repeat(12_000)}\n${'a\n'.repeat(100)}`,
  'square.csv': `${'x,'.repeat(120)}\n`.repeat(100),
  'cells.csv': ','.repeat(24_576),
  'quotes.csv': `"${'""'.repeat(12_000)}`,
  'hidden.csv': hidden(24_576),
  'hidden-cells.csv': `${'\u202e,'.repeat(60)}\n`.repeat(100),
  'rows.tsv': '\n'.repeat(24_576),
  'lines.txt': '\n'.repeat(24_576),
  'hidden.txt': hidden(24_576),
  'joiners.txt': '\u200d'.repeat(8192),
  'families.txt': '👨\u200d👩\u200d'.repeat(1200),
  'zeros.txt': '\0'.repeat(24_576),
};

/** Forms may have 64 KiB, and this one 1 MiB. */
const IMPORTED: Readonly<Record<string, string>> = {
  separators: ','.repeat(1_000_000),
  names: 'name,'.repeat(200_000),
  'an open quotation mark': `name\n"${'x'.repeat(1_000_000)}`,
  'quotation marks': `name\n"${'""'.repeat(500_000)}`,
  'blank rows': `name\n${'\n'.repeat(1_000_000)}`,
  'many rows': `name\n${'x\n'.repeat(500_000)}`,
  'wide rows': `name\n${`x${','.repeat(10_000)}y\n`.repeat(100)}`,
  'long rows': `name,description\n${`x,${'d'.repeat(9000)}\n`.repeat(100)}`,
  'hidden characters': `name,description\n${`x,${hidden(4800)}\n`.repeat(100)}`,
  'hidden names': `name,description\n${`${hidden(4800)},x\n`.repeat(100)}`,
  'one hidden name': hidden(500_000),
  'escaped characters': '<'.repeat(1_000_000),
};

test(
  'no page holds the event loop for more than 50 ms, however large its inputs are',
  { timeout: 235_000 },
  async () => {
    using files = scratch({ BERTH_DASHBOARD: 'on' });
    await using berth = await startBerth(files);
    const ids = { ...(await everything(berth)), files: idOf('file', 0), deliveries: idOf('delivery', 0) };
    const previews = await leave(berth, files.dir);
    using user = await signedIn(place(berth), berth.accountId);
    await onDatabase(berth, ({ db }) => db.transaction().execute((tx) => enlarge(tx, berth, ids, user)));
    const slow: string[] = [];
    const tried = async (what: string, sent: Sent): Promise<void> => {
      let quickest = Infinity;
      for (let round = 0; round < TRIES && quickest > MOST_MS; round += 1)
        quickest = Math.min(quickest, await longestTurnMs(() => send(berth, user, sent)));
      if (quickest > MOST_MS) slow.push(`${what}: ${Math.round(quickest)} ms`);
    };

    for (const [name, path] of previews) await tried(name, { path });
    for (const { method, path: route } of dashboardRoutes()) {
      if (method !== 'GET' || /^\/dashboard\/(?:static|oidc)/.test(route)) continue;
      const accept = route.endsWith('/events') ? 'text/event-stream' : '*/*';
      for (const [what, query] of Object.entries(QUERIES))
        await tried(`${route}, ${what}`, { path: `${addressOf(route, ids)}?${query}`, accept });
    }
    // As they are: encoded, they would be three times as long.
    const csrf = `_csrf=${await tokenOf(user)}`;
    for (const [what, csv] of Object.entries(IMPORTED))
      await tried(`import, ${what}`, { path: '/dashboard/directories/import', body: `${csrf}&csv=${csv}` });
    for (const [route, { fields }] of Object.entries(FORMS)) {
      if (fields === undefined || route === '/dashboard/directories/import') continue;
      const path = addressOf(route, ids);
      for (const [what, body] of Object.entries(bodiesOf(Object.keys(fields))))
        await tried(`${route}, ${what}`, { path, body: `${csrf}&${body}` });
    }
    for (const [wanted, more] of [
      ['selected', []],
      ['delete-selected', [`_ask=${hidden(2000)}`]],
    ] as const) {
      const chosen = Array.from({ length: 110 }, (_, index) => `file=${idOf('file', index)}`);
      const path = addressOf(`/dashboard/directories/:id/files/${wanted}`, ids);
      await tried(`files, ${wanted}`, { path, body: [csrf, ...more, ...chosen].join('&') });
    }
    assert.deepEqual(slow, []);
  },
);

const QUERIES: Readonly<Record<string, string>> = {
  'no query': '',
  'long texts': 'q directory file since until state after before topic days order for page done next'
    .split(' ')
    .map((name) => `${name}=${encodeURIComponent(hidden(50))}`)
    .join('&'),
  'a search': 'q=zz&file=zz',
  'a long search': `q=${encodeURIComponent(hidden(1000))}`,
  'a deep folder': `folder=${Buffer.from(pathOf(1)).toString('base64url')}`,
};

/** Bodies of up to 64 KiB with these fields. */
function bodiesOf(names: readonly string[]): Record<string, string> {
  const fields = names.map((name) => `&${name}=x`).join('');
  const length = Math.floor(15_000 / names.length) * 2;
  return {
    'long texts': names.map((name) => `${name}=${hidden(length)}`).join('&'),
    'many fields': fields.repeat(Math.floor(65_000 / fields.length)),
    'many lines': names.map((name) => `${name}=${'1.2.3.4/8\n'.repeat(99)}${' ,'.repeat(length)}`).join('&'),
  };
}

/** Uploads the files of `PREVIEWED` as a customer. @returns the paths of their previews, by name. */
async function leave(berth: TestBerth, dir: string): Promise<Map<string, string>> {
  const directory = await berth.directory();
  for (const [name, text] of Object.entries(PREVIEWED)) writeFileSync(join(dir, name), text);
  const commands = Object.keys(PREVIEWED).map((name) => `put ${name}`);
  assert.equal((await sftp(dir, directory.login, commands)).code, 0);
  await until('all are recorded', async () => (await berth.uploads(directory)).length === commands.length);
  const uploads = await berth.uploads(directory);
  return new Map(
    uploads.map(({ filename, id }) => [filename, `/dashboard/directories/${directory.id}/files/${id}/preview`]),
  );
}

interface Sent {
  readonly path: string;
  readonly accept?: string;
  /** The body of a form to post. */
  readonly body?: string;
}

/** Reads the answer to its end; of a page that follows changes, its first part. */
async function send(berth: TestBerth, user: Visitor, { path, accept = '*/*', body }: Sent): Promise<void> {
  const { config, port } = place(berth);
  const cookie = [...user.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const ca = readFileSync(config.tls.cert);
  const ofForm = body !== undefined && {
    origin: origin(berth),
    'content-type': FORM_TYPE,
    'content-length': Buffer.byteLength(body),
  };
  const outgoing = request({
    ca,
    host: '127.0.0.1',
    port,
    path,
    method: body === undefined ? 'GET' : 'POST',
    headers: { cookie, accept, ...ofForm },
    agent: false,
    // A redirect has what was typed.
    maxHeaderSize: 1_000_000,
  });
  outgoing.end(body);
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  assert.ok(
    [200, 303, 403, 404, 409, 422].includes(incoming.statusCode ?? 0),
    `${path.slice(0, 200)}: ${incoming.statusCode}`,
  );
  let last = '';
  for await (const chunk of incoming) {
    last = (last + String(chunk)).slice(-2);
    if (accept === 'text/event-stream' && last === '\n\n') break;
  }
  outgoing.destroy();
}

/** Gives the directory and what belongs to it the longest texts, and makes every list longer than a page shows. */
async function enlarge(tx: Kysely<Tables>, { accountId }: TestBerth, ids: Ids, user: Visitor): Promise<void> {
  const directory_id = ids.directories;
  const at = systemClock().now();
  const of = { directory_id, account_id: accountId };
  const made = { inserted_at: at, created_by: `user:${user.email}` };
  const url = `https://example.com/${hidden(2000)}`;
  const networks = Array.from({ length: 100 }, (_, index) => `2001:db8:1111:2222:3333:4444:5555:${index}/128`);
  const metadata = JSON.stringify({ a: hidden(8000) });
  const texts = { name: hidden(100), description: hidden(2000), external_id: hidden(254), metadata };
  await tx
    .updateTable('directories')
    .set({ ...texts, webhook_url: url, allowed_networks: JSON.stringify(networks) })
    .where('id', '=', directory_id)
    .execute();
  await tx.updateTable('accounts').set({ name: texts.name }).where('id', '=', accountId).execute();
  const { search: _search, ...directory } = await tx
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', directory_id)
    .executeTakeFirstOrThrow();
  const { sftp_username: username } = directory;
  const limits = JSON.stringify(Array.from({ length: 100 }, (_, index) => idOf('directory', index)));
  for (let index = 0; index < MANY; index += 1) {
    const path = pathOf(index);
    const bytes = Buffer.from(path);
    const other = { uid: directory.uid + 1000 + index, sftp_username: `${'x'.repeat(30)}${index}` };
    await add(tx, 'principals', { uid: other.uid, username: other.sftp_username });
    await add(tx, 'directories', { ...directory, ...other, id: idOf('directory', index) });
    const file = { directory_id, size_bytes: 1e12, uploaded_at: at, mtime: at, ctime: at, inode: 1e9 + index };
    const rest = { source: 'log', returns_to: null, session_pid: null, check_failure: hidden(500) } as const;
    for (const state of ['uploaded', 'partial', 'checking'] as const) {
      const id = idOf(state === 'uploaded' ? 'file' : state, index);
      await add(tx, 'files', { ...file, ...rest, id, state, path: Buffer.concat([Buffer.from(state), bytes]) });
    }
    const body = Buffer.from(JSON.stringify({ external_id: texts.external_id, filename: path }));
    const ended = { state: 'failed', attempts: 4, inserted_at: at + index, finished_at: at, due_at: null } as const;
    const sent = { ...of, ...ended, url, destination: `${accountId} https://example.com`, body, upload_id: ids.files };
    const delivery_id = idOf('delivery', index);
    await add(tx, 'deliveries', { ...sent, id: delivery_id, replay_at: null, replayed_as: null });
    for (const number of [1, 2, 3, 4]) {
      const attempt = { delivery_id, number, started_at: at, finished_at: at, latency_us: 1 };
      const outcome =
        number < 4
          ? { status: 500, error: null, response: Buffer.from(hidden(512)) }
          : { status: null, error: hidden(500), response: null };
      await add(tx, 'attempts', { ...attempt, ...outcome });
    }
    const transfer = {
      ...of,
      at: at - index,
      username,
      path,
      from_path: path,
      reason: hidden(500),
      address: '192.0.2.1',
    };
    await add(tx, 'transfers', { ...transfer, event: 'renamed', session_pid: 1, bytes: 1, began_at: at, via: null });
    const changes = JSON.stringify({ file: { from: path, to: path } });
    const by = { key_id: made.created_by, request_id: 'r', route: 'PUT' };
    await add(tx, 'audit', { ...of, ...by, at: at - index, username, action: 'put-file', changes });
    const refusal = { address: '192.0.2.1', text: hidden(500) };
    await add(tx, 'logins', { ...refusal, directory_id, at: at - index, kind: 'refused' });
    const link = { id: idOf('link', index), directory_id, hash: String(index), path: bytes, expires_at: at + DAY };
    const use = { is_folder: 0, once: 1, max_bytes: null, used_at: null, sent: null, sending: null } as const;
    await add(tx, 'links', { ...made, ...link, ...use, kind: 'download' });
    const key = { id: idOf('key', index), account_id: accountId, name: texts.name, hash: String(index) };
    const keyUse = { last_used_at: at, revoked_at: null, directories: limits };
    await add(tx, 'api_keys', { ...made, ...key, ...keyUse, role: 'member' });
    const email = `${'x'.repeat(235)}${index}@example.com`;
    const userRow = { id: idOf('user', index), account_id: accountId, email, role: 'admin', totp_step: 0 } as const;
    await add(tx, 'users', { ...userRow, inserted_at: at });
    if (index >= MOST_PUBLIC_KEYS) continue;
    const line = `ssh-rsa ${'A'.repeat(2800)}`;
    const publicKey = { directory_id, fingerprint: `SHA256:${index}`, type: 'ssh-rsa', comment: hidden(254), line };
    await add(tx, 'public_keys', { ...publicKey, inserted_at: at, last_used_at: at });
  }
}

async function add<T extends keyof Tables>(tx: Kysely<Tables>, table: T, row: Insertable<Tables[T]>): Promise<void> {
  // Of any table, so that Kysely's types cannot tell which columns it has.
  await tx.insertInto(table).values(row).execute();
}
