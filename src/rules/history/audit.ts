/**
 * The audit: who changed what, written in the transaction of the change, so that neither exists without the other.
 *
 * Promise: it holds no secrets. `AUDITED` says which columns are written with their values. Public keys are reduced to their
 * fingerprints, and a webhook URL to its origin, since paths and queries often contain tokens.
 */
import type { Transaction } from 'kysely';
import { type AccountTarget, requireDirectory, requireWholeAccount, verifyActor } from '../accounts/actor.ts';
import { formatMicros, type Micros } from '../../foundation/base/clock.ts';
import { keyFingerprint } from '../../foundation/base/hashes.ts';
import type { AuditAction, DirectoryRow, Tables } from '../../foundation/db/schema.ts';

/** The actor of a change that somebody makes with a link: no key or user has made it. */
export const BY_LINK = 'link';

interface AuditedChange {
  readonly at: Micros;
  readonly action: AuditAction;
  readonly directory: Pick<DirectoryRow, 'id' | 'sftp_username'>;
  readonly before?: Partial<DirectoryRow>;
  /** The columns that were set. */
  readonly after?: Partial<DirectoryRow>;
  /** Changes other than columns, such as the name of a file; no secrets. */
  readonly details?: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
}

type Column = keyof DirectoryRow;

/** With both values, in the form that the API has for them. */
type Form = 'shown' | 'flag' | 'time' | 'json' | 'origin';

/** How a change of a column is written: with both values, by name only, or not at all. */
type How<Value> = 'named' | 'fingerprints' | 'unaudited' | ([Value] extends [0 | 1] ? 'flag' : Exclude<Form, 'flag'>);

const AUDITED = {
  id: 'unaudited',
  account_id: 'unaudited',
  node: 'unaudited',
  version: 'unaudited',
  name: 'shown',
  description: 'named',
  slug: 'shown',
  external_id: 'shown',
  metadata: 'named',
  sftp_host: 'unaudited',
  sftp_port: 'unaudited',
  sftp_username: 'unaudited',
  uid: 'unaudited',
  password_hash: 'named',
  webhook_url: 'origin',
  uses_account_webhook: 'flag',
  webhook_secret: 'named',
  next_webhook_secret: 'named',
  max_connections: 'shown',
  storage_bytes: 'unaudited',
  retention_days: 'shown',
  auth_mode: 'shown',
  public_key: 'fingerprints',
  public_key_fingerprint: 'shown',
  suspended: 'flag',
  expires_at: 'time',
  allowed_networks: 'json',
  events: 'unaudited', // webhook.ts writes its change as a detail
  quota_bytes: 'shown',
  inserted_at: 'unaudited',
  updated_at: 'unaudited',
  deleted_at: 'unaudited',
} as const satisfies { [C in Column]: How<DirectoryRow[C]> };

/** The columns whose changes the audit has. */
export type AuditedColumn = { [C in Column]: (typeof AUDITED)[C] extends 'unaudited' ? never : C }[Column];

/** Left out when a directory is created: every directory has them. */
const GIVEN: ReadonlySet<Column> = new Set(['password_hash', 'webhook_secret']);

/**
 * Writes a row, and verifies that the actor may still make the change. Writes none for berth's own changes, which have no actor.
 * @throws {BerthError} like `verifyActor`, and when the change is outside of the actor's scope.
 */
export async function insertAudit(
  tx: Transaction<Tables>,
  target: AccountTarget<never>,
  change: AuditedChange,
): Promise<void> {
  const { accountId, actor } = target;
  if (!actor) return;
  const scope = await verifyActor(tx, target);
  if (change.directory.id === '') requireWholeAccount(scope);
  else requireDirectory(scope, change.directory.id);
  await tx
    .insertInto('audit')
    .values({
      at: change.at,
      action: change.action,
      account_id: accountId,
      key_id: actor.keyId,
      request_id: actor.requestId,
      route: actor.route,
      directory_id: change.directory.id,
      username: change.directory.sftp_username,
      changes: JSON.stringify({ ...differences(change.before ?? {}, change.after ?? {}), ...change.details }),
    })
    .execute();
}

/** Writes a row for a change of the account itself. `details` must not contain secrets. */
export async function insertAccountAudit(
  tx: Transaction<Tables>,
  target: AccountTarget<never>,
  { at, action, details = {} }: Pick<AuditedChange, 'at' | 'action' | 'details'>,
): Promise<void> {
  await insertAudit(tx, target, { at, action, directory: { id: '', sftp_username: '' }, details });
}

interface Difference {
  from?: unknown;
  to?: unknown;
}

/** The changed fields, with their values if those may be shown. */
function differences(before: Partial<DirectoryRow>, after: Partial<DirectoryRow>): Record<string, Difference> {
  const found: Record<string, Difference> = {};
  for (const column of Object.keys(after) as Column[]) {
    const from = before[column] ?? null;
    const to = after[column] ?? null;
    if (from === to || (from === null && GIVEN.has(column))) continue;
    const how = AUDITED[column];
    if (how === 'unaudited') continue;
    if (how === 'named') found[column] = {};
    else if (how === 'fingerprints') found[column] = keyDifference(from, to);
    else found[column] = { from: inForm(how, from), to: inForm(how, to) };
  }
  return found;
}

function inForm(form: Form, value: unknown): unknown {
  switch (form) {
    case 'shown':
      return value;
    case 'flag':
      return value === 1;
    case 'time':
      return typeof value === 'number' ? formatMicros(value) : value;
    case 'json':
      return typeof value === 'string' ? (JSON.parse(value) as unknown) : value;
    case 'origin':
      return typeof value === 'string' ? (URL.parse(value)?.origin ?? null) : null;
  }
}

/** The fingerprints of removed and added keys. With at most one key, `public_key_fingerprint` says the same. */
function keyDifference(from: unknown, to: unknown): Difference {
  const [before, after] = [from, to].map((lines) => (typeof lines === 'string' ? lines.split('\n') : []));
  if (!before || !after || (before.length < 2 && after.length < 2)) return {};
  const without = (some: string[], others: string[]): string[] =>
    some.filter((line) => !others.includes(line)).map(fingerprint);
  return { from: without(before, after), to: without(after, before) };
}

function fingerprint(line: string): string {
  return keyFingerprint(Buffer.from(line.split(' ')[1] ?? '', 'base64'));
}
