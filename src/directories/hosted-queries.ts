/** What a host has to know of the live directories, to compare it with what it has. */
import type { Awaitable, Reads } from '../db/reads.ts';
import type { DirectoriesTable } from '../db/schema.ts';
import type { HostedDirectory } from './host.ts';

export interface HostedQueries {
  /** Live directories in the order of their ids, after one. */
  after(id: string, limit: number): Awaitable<HostedDirectory[]>;
  /** A live directory as it is now. */
  current(id: string): Awaitable<DirectoriesTable | undefined>;
}

export function hostedQueries(reads: Reads): HostedQueries {
  const page = reads.prepare<{ after: string; limit: number }>()((db, p) =>
    db
      .selectFrom('directories')
      .select(['id', 'sftp_username', 'uid', 'password_hash', 'auth_mode', 'public_key', 'max_connections'])
      .where('deleted_at', 'is', null)
      .where('id', '>', p('after'))
      .orderBy('id')
      .limit(p('limit')),
  );
  const one = reads.prepare<{ id: string }>()((db, p) =>
    db.selectFrom('directories').selectAll().where('id', '=', p('id')).where('deleted_at', 'is', null),
  );
  return { after: (after, limit) => page.all({ after, limit }), current: (id) => one.first({ id }) };
}
