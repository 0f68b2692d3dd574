/** The audit of API changes, read for people. */
import type { Selectable } from 'kysely';
import type { Database } from '../db/open.ts';
import type { AuditTable } from '../db/schema.ts';
import type { Filter } from './filter.ts';

export type AuditRow = Selectable<AuditTable> & { readonly key_name: string | null };

export interface AuditFilter extends Filter {
  readonly key?: string | undefined;
}

/** The newest rows, oldest of them first. */
export async function listAudit({ db }: Database, filter: AuditFilter): Promise<AuditRow[]> {
  let query = db
    .selectFrom('audit')
    .leftJoin('api_keys', 'api_keys.id', 'audit.key_id')
    .selectAll('audit')
    .select('api_keys.name as key_name')
    .orderBy('audit.at', 'desc')
    .orderBy('audit.id', 'desc')
    .limit(filter.limit);
  if (filter.directory !== undefined) query = query.where('audit.directory_id', '=', filter.directory);
  if (filter.account !== undefined) query = query.where('audit.account_id', '=', filter.account);
  if (filter.key !== undefined) query = query.where('audit.key_id', '=', filter.key);
  if (filter.since !== undefined) query = query.where('audit.at', '>=', filter.since);
  return (await query.execute()).toReversed();
}
