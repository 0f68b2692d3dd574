/** What a host has to know of the live directories, to compare it with what it has. */
import type { Kysely } from 'kysely';
import type { DirectoriesTable, Tables } from '../db/schema.ts';
import type { HostedDirectory } from './host.ts';

/** Live directories in the order of their ids, after one. */
export function hostedAfter(reads: Kysely<Tables>, after: string, limit: number): Promise<HostedDirectory[]> {
  return reads
    .selectFrom('directories')
    .select(['id', 'sftp_username', 'uid', 'password_hash', 'auth_mode', 'public_key', 'max_connections'])
    .where('deleted_at', 'is', null)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** A live directory as it is now. */
export function currentDirectory(reads: Kysely<Tables>, id: string): Promise<DirectoriesTable | undefined> {
  return reads
    .selectFrom('directories')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}
