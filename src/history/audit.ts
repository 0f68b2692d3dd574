/**
 * The audit of API changes: which key changed what of which directory, in the same transaction as the change, so that
 * neither is there without the other.
 *
 * Promise: no secret gets here. Values are shown only of the fields listed below; of a webhook URL only the origin, since
 * paths and queries often carry tokens; of all other fields only the name.
 */
import { createHash } from 'node:crypto';
import type { Transaction } from 'kysely';
import { type Actor, verifyActor } from '../accounts/actor.ts';
import { requireDirectory, requireWholeAccount } from '../accounts/scope.ts';
import { formatMicros, type Micros } from '../base/clock.ts';
import type { AuditAction, DirectoriesTable, Tables } from '../db/schema.ts';

export type { Actor } from '../accounts/actor.ts';

export interface AuditedChange {
  readonly at: Micros;
  readonly action: AuditAction;
  readonly directory: Pick<DirectoriesTable, 'id' | 'sftp_username'>;
  readonly before?: Partial<DirectoriesTable>;
  /** The columns that were set. */
  readonly after?: Partial<DirectoriesTable>;
  /** Changes other than columns, such as the name of a file; no secrets. */
  readonly details?: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
}

type Column = keyof DirectoriesTable;

const SHOWN: ReadonlySet<string> = new Set<Column>([
  'name',
  'slug',
  'external_id',
  'max_connections',
  'retention_days',
  'quota_bytes',
  'auth_mode',
  'public_key_fingerprint',
  'suspended',
  'expires_at',
  'allowed_networks',
  'uses_account_webhook',
]);
const NAMED: ReadonlySet<string> = new Set<Column>([
  'description',
  'metadata',
  'webhook_url',
  'password_hash',
  'webhook_secret',
  'next_webhook_secret',
  'link_secret',
]);

/** Every new directory has them. */
const GIVEN: ReadonlySet<string> = new Set<Column>(['password_hash', 'webhook_secret']);

/**
 * @throws {BerthError} as `verifyActor` does: nobody changes anything after the right to it has ended; and when the change is
 * outside of the actor's scope.
 */
export async function insertAudit(tx: Transaction<Tables>, actor: Actor, change: AuditedChange): Promise<void> {
  const scope = await verifyActor(tx, actor);
  if (change.directory.id === '') requireWholeAccount(scope);
  else requireDirectory(scope, change.directory.id);
  await tx
    .insertInto('audit')
    .values({
      at: change.at,
      action: change.action,
      account_id: actor.accountId,
      key_id: actor.keyId,
      request_id: actor.requestId,
      route: actor.route,
      directory_id: change.directory.id,
      username: change.directory.sftp_username,
      changes: JSON.stringify({ ...differences(change.before ?? {}, change.after ?? {}), ...change.details }),
    })
    .execute();
}

/** A change of the account itself: no directory is meant. `details` hold no secrets. */
export async function insertAccountAudit(
  tx: Transaction<Tables>,
  actor: Actor,
  { at, action, details = {} }: Pick<AuditedChange, 'at' | 'action' | 'details'>,
): Promise<void> {
  await insertAudit(tx, actor, { at, action, directory: { id: '', sftp_username: '' }, details });
}

interface Difference {
  from?: unknown;
  to?: unknown;
}

/** Each field that changed, with its values where they may be shown. */
function differences(before: Partial<DirectoriesTable>, after: Partial<DirectoriesTable>): Record<string, Difference> {
  const found: Record<string, Difference> = {};
  for (const column of Object.keys(after) as Column[]) {
    const from = before[column] ?? null;
    const to = after[column] ?? null;
    if (from === to || (from === null && GIVEN.has(column))) continue;
    if (SHOWN.has(column)) found[column] = { from: shown(column, from), to: shown(column, to) };
    else if (column === 'webhook_url') found[column] = { from: origin(from), to: origin(to) };
    else if (column === 'public_key') found[column] = keyDifference(from, to);
    else if (NAMED.has(column)) found[column] = {};
  }
  return found;
}

/** The value as the API shows it. */
function shown(column: Column, value: unknown): unknown {
  if (column === 'suspended' || column === 'uses_account_webhook') return value === 1;
  if (column === 'expires_at') return typeof value === 'number' ? formatMicros(value) : value;
  return column === 'allowed_networks' && typeof value === 'string' ? (JSON.parse(value) as unknown) : value;
}

/** The fingerprints of the keys that went and came; a single key's is a field of its own. */
function keyDifference(from: unknown, to: unknown): Difference {
  const [before, after] = [from, to].map((lines) => (typeof lines === 'string' ? lines.split('\n') : []));
  if (!before || !after || (before.length < 2 && after.length < 2)) return {};
  const without = (some: string[], others: string[]): string[] =>
    some.filter((line) => !others.includes(line)).map(fingerprint);
  return { from: without(before, after), to: without(after, before) };
}

function fingerprint(line: string): string {
  const blob = Buffer.from(line.split(' ')[1] ?? '', 'base64');
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
}

function origin(url: unknown): string | null {
  return typeof url === 'string' ? (URL.parse(url)?.origin ?? null) : null;
}
