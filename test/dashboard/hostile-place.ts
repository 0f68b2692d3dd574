/**
 * Two accounts with one object of each kind that a URL of the dashboard can name, and every form with the users who may send
 * it.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { DAY, type Micros, systemClock } from '../../src/foundation/base/clock.ts';
import type { Database } from '../../src/foundation/db/open.ts';
import { openUserSession } from '../../src/rules/users/sessions.ts';
import { createUser } from '../../src/rules/users/users.ts';
import type { TestBerth, TestDirectory } from '../support/berth.ts';
import type { Visitor } from '../support/dashboard.ts';
import { cutOff } from '../support/demo.ts';
import { onDatabase, operator } from '../support/users.ts';

export const FORM_TYPE = 'application/x-www-form-urlencoded';

export const place = (berth: TestBerth) => ({ config: berth.config, port: berth.service().dashboardPort ?? 0 });
export const origin = (berth: TestBerth): string => `https://127.0.0.1:${place(berth).port}`;

/** As the forms of its session have it. */
export async function tokenOf(visitor: Visitor): Promise<string> {
  const { text } = await visitor.get('/dashboard/directories');
  const [, token = ''] = /name="_csrf" value="([^"]+)"/.exec(text) ?? [];
  assert.notEqual(token, '');
  return token;
}

/** What stands in an address, by the part before it. */
export type Ids = Readonly<
  Record<
    | 'directories'
    | 'files'
    | 'partial'
    | 'quarantine'
    | 'deliveries'
    | 'api-keys'
    | 'team'
    | 'sessions'
    | 'link'
    | 'links',
    string
  >
>;

/** The address of a route: each parameter is what the part before it names. */
export function addressOf(route: string, ids: Ids): string {
  return route.replaceAll(/\/([\w-]+)\/:\w+/g, (_, part: string) => {
    if (!(part in ids)) throw new Error(`${route}: nothing is known of ${part}`);
    return `/${part}/${ids[part as keyof Ids]}`;
  });
}

/** Which of the ids are in it. */
export function idsIn(route: string): (keyof Ids)[] {
  return [...route.matchAll(/\/([\w-]+)\/:\w+/g)].map(([, part]) => part as keyof Ids);
}

interface Sent {
  /** The role that it takes: `admin`, any `user` of the account, or `anybody` who is not signed in. */
  readonly by: 'admin' | 'user' | 'anybody';
  readonly fields?: Record<string, string>;
}

const admin: Sent = { by: 'admin' };
const user: Sent = { by: 'user' };

/** Every form, with fields that would be taken. */
export const FORMS: Readonly<Record<string, Sent>> = {
  '/dashboard/sign-in': { by: 'anybody', fields: { email: 'a@example.com', password: 'x' } },
  '/dashboard/sign-in/account': { by: 'anybody', fields: { user: 'x' } },
  '/dashboard/link/:token': { by: 'anybody', fields: { password: 'x'.repeat(20), repeated: 'x'.repeat(20) } },
  '/dashboard/sign-in/code': user,
  '/dashboard/sign-out': user,
  '/dashboard/directories': { by: 'user', fields: { name: 'new' } },
  '/dashboard/directories/import': { by: 'user', fields: { csv: 'name\nnew', confirmed: '1' } },
  '/dashboard/directories/:id/settings': { by: 'user', fields: { name: 'other' } },
  '/dashboard/directories/:id/auth-mode': { by: 'admin', fields: { auth_mode: 'password' } },
  '/dashboard/directories/:id/public-keys': { by: 'admin', fields: { public_key: 'x' } },
  '/dashboard/directories/:id/public-keys/remove': { by: 'admin', fields: { fingerprint: 'SHA256:x' } },
  '/dashboard/directories/:id/suspend': admin,
  '/dashboard/directories/:id/resume': admin,
  '/dashboard/directories/:id/access/limits': { by: 'admin', fields: { expires_at: '', allowed_networks: '' } },
  '/dashboard/directories/:id/access/allow': { by: 'admin', fields: { address: '192.0.2.1' } },
  '/dashboard/directories/:id/quota': { by: 'admin', fields: { quota_bytes: '' } },
  '/dashboard/directories/:id/password': admin,
  '/dashboard/directories/:id/delete': { by: 'user', fields: { name: 'Acme' } },
  '/dashboard/directories/:id/activity/end-session': { by: 'admin', fields: { pid: '1' } },
  '/dashboard/directories/:id/files/:upload/delete': user,
  '/dashboard/directories/:id/files/:upload/send': user,
  '/dashboard/directories/:id/files/selected': { by: 'user', fields: { file: 'x' } },
  '/dashboard/directories/:id/files/delete-selected': { by: 'user', fields: { file: 'x' } },
  '/dashboard/directories/:id/links': { by: 'user', fields: { for: 'download', path: 'a.csv' } },
  '/dashboard/directories/:id/links/revoke': user,
  '/dashboard/directories/:id/links/:link/revoke': user,
  '/dashboard/directories/:id/partial/:file/announce': user,
  '/dashboard/directories/:id/partial/:file/delete': user,
  '/dashboard/directories/:id/quarantine/:file/release': admin,
  '/dashboard/directories/:id/quarantine/:file/delete': admin,
  '/dashboard/deliveries': { by: 'user', fields: { state: 'failed' } },
  '/dashboard/deliveries/send-again': { by: 'user', fields: { directory: 'x' } },
  '/dashboard/deliveries/stop': { by: 'user', fields: { directory: 'x' } },
  '/dashboard/deliveries/test': { by: 'user', fields: { directory: 'x' } },
  '/dashboard/activity/end-session': { by: 'admin', fields: { directory: 'x', session: 'x' } },
  '/dashboard/directories/:id/webhook': { by: 'user', fields: { webhook_url: '' } },
  '/dashboard/directories/:id/webhook/test': user,
  '/dashboard/directories/:id/webhook/secret/show': user,
  '/dashboard/directories/:id/webhook/secret': admin,
  '/dashboard/directories/:id/webhook/secret/activate': admin,
  '/dashboard/directories/:id/webhook/deliveries/:delivery_id/replay': user,
  '/dashboard/directories/:id/webhook/deliveries/:delivery_id/announce': user,
  '/dashboard/api-keys': { by: 'admin', fields: { name: 'new', role: 'admin' } },
  '/dashboard/api-keys/:id/revoke': admin,
  '/dashboard/team': { by: 'admin', fields: { email: 'new@example.com', role: 'admin' } },
  '/dashboard/team/:id/role': { by: 'admin', fields: { role: 'member' } },
  '/dashboard/team/:id/link': admin,
  '/dashboard/team/:id/disable': admin,
  '/dashboard/team/:id/enable': admin,
  '/dashboard/team/:id/second-factor': admin,
  '/dashboard/team/:id/remove': admin,
  '/dashboard/team/:id/api-keys/:key/revoke': admin,
  '/dashboard/team/:id/links/:link/revoke': { by: 'admin', fields: { directory: 'x' } },
  '/dashboard/account/webhook': { by: 'admin', fields: { url: 'https://example.com/new' } },
  '/dashboard/account/webhook/test': user,
  '/dashboard/account/webhook/secret/show': user,
  '/dashboard/account/webhook/secret': admin,
  '/dashboard/account/webhook/secret/activate': admin,
  '/dashboard/account/second-factor': { by: 'admin', fields: { required: 'on' } },
  '/dashboard/profile/password': user,
  '/dashboard/profile/sessions/:id/end': user,
  '/dashboard/profile/sessions/end-others': user,
  '/dashboard/profile/second-factor': user,
  '/dashboard/profile/second-factor/recovery-codes': user,
  '/dashboard/profile/second-factor/turn-off': user,
};

/** One of everything for an account: of the one that the berth has, or of a new one. */
export async function everything(berth: TestBerth, isOther = false): Promise<Ids & { accountId: string }> {
  const directory = await berth.directory();
  return onDatabase(berth, async (database) => {
    const issuer = { database, clock: systemClock(), config: { environment: 'live' } } as const;
    const now = issuer.clock.now();
    const ids = await upload(berth, database, directory);
    const accountId = isOther ? (await createAccount(issuer, { name: 'Other', plan: 'pro' })).id : berth.accountId;
    const { db } = database;
    await db.updateTable('directories').set({ account_id: accountId }).where('id', '=', directory.id).execute();
    await db
      .updateTable('deliveries')
      .set({ account_id: accountId })
      .where('directory_id', '=', directory.id)
      .execute();
    const key = await createKey(issuer, { accountId }, { role: 'member', name: 'used' });
    const email = `${randomUUID()}@example.com`;
    const invited = await createUser(issuer, operator(accountId), { email, role: 'admin' });
    const visit = { address: '192.0.2.1', agent: 'test' };
    await db.transaction().execute((tx) => openUserSession(tx, invited.id, { now, visit, awaitsCode: false }));
    const session = await db
      .selectFrom('user_sessions')
      .select('id')
      .where('user_id', '=', invited.id)
      .executeTakeFirstOrThrow();
    return {
      accountId,
      directories: directory.id,
      ...ids,
      'api-keys': key.id,
      team: invited.id,
      sessions: session.id,
      link: invited.token,
      links: await linkOf(db, directory.id, now),
    };
  });
}

/** A file, one that was not finished, and a webhook of the first that was given up. The file is there: a scan would remove the row of one that is not. */
async function upload(
  berth: TestBerth,
  { db }: Database,
  directory: TestDirectory,
): Promise<Pick<Ids, 'files' | 'partial' | 'quarantine' | 'deliveries'>> {
  const { id: directory_id } = directory;
  await berth.send('PUT', `/directories/${directory_id}/files/a.csv`, { body: 'x' });
  const { id: upload_id } = await db
    .selectFrom('files')
    .select('id')
    .where('directory_id', '=', directory_id)
    .executeTakeFirstOrThrow();
  await cutOff(berth, directory);
  const { id: partial } = await db
    .selectFrom('files')
    .select('id')
    .where('directory_id', '=', directory_id)
    .where('state', '=', 'partial')
    .executeTakeFirstOrThrow();
  const sent = {
    url: 'https://example.com/',
    destination: 'none https://example.com',
    body: Buffer.from('{"filename":"a.csv"}'),
  };
  const now = systemClock().now();
  const ended = { state: 'failed', attempts: 4, inserted_at: now, finished_at: now, due_at: null } as const;
  const { id } = await db
    .insertInto('deliveries')
    .values({
      id: randomUUID(),
      directory_id,
      account_id: berth.accountId,
      upload_id,
      ...sent,
      ...ended,
      replay_at: null,
      replayed_as: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return { files: upload_id, partial, quarantine: await rejected(berth, db, directory_id), deliveries: id };
}

async function linkOf(db: Database['db'], directory_id: string, now: Micros): Promise<string> {
  const id = randomUUID();
  const allows = { kind: 'upload', path: Buffer.from('in'), is_folder: 1, max_bytes: 1, once: 0 } as const;
  await db
    .insertInto('links')
    .values({
      ...allows,
      id,
      directory_id,
      hash: id,
      expires_at: now + DAY,
      inserted_at: now,
      created_by: null,
      used_at: null,
    })
    .execute();
  return id;
}

/** A rejected file. One that waits for its check would be announced within seconds, since there is no checker. */
async function rejected(berth: TestBerth, db: Database['db'], directory: string): Promise<string> {
  const id = randomUUID();
  const at = systemClock().now();
  const file = { path: Buffer.from('b.csv'), size_bytes: 2, inode: 1, mtime: at };
  await db
    .insertInto('quarantine')
    .values({
      ...file,
      id,
      directory_id: directory,
      node: berth.config.node,
      reason: 'bad',
      rejected_at: at,
      released_at: null,
    })
    .execute();
  return id;
}

/** What no refused form may change. Sessions note when they were used, so of them only which there are. */
export async function stateOf(berth: TestBerth): Promise<string> {
  return onDatabase(berth, async ({ db }) => {
    const rows = [
      await db.selectFrom('accounts').selectAll().execute(),
      await db.selectFrom('account_webhooks').selectAll().execute(),
      await db.selectFrom('directories').selectAll().execute(),
      await db.selectFrom('files').selectAll().execute(),
      await db.selectFrom('quarantine').selectAll().execute(),
      await db.selectFrom('deliveries').selectAll().execute(),
      await db.selectFrom('api_keys').select(['id', 'name', 'revoked_at']).execute(),
      await db.selectFrom('users').selectAll().execute(),
      await db.selectFrom('user_links').selectAll().execute(),
      await db.selectFrom('links').selectAll().execute(),
      await db.selectFrom('user_sessions').select(['id', 'user_id', 'awaits_code']).execute(),
      await db.selectFrom('recovery_codes').selectAll().execute(),
      await db.selectFrom('audit').selectAll().execute(),
    ];
    return JSON.stringify(rows, null, 1);
  });
}
