/** File operations, for directories that are at home here. The files of others are on other machines, which nodes do not contact. */
import type { Ground } from '../../foundation/context.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { DirectoryFiles } from '../../arrivals/files/directory-files.ts';
import type { MoveLock } from './move/move-lock.ts';

export function filesHere({ config, database }: Ground, moveLock: MoveLock, own: DirectoryFiles): DirectoryFiles {
  /** @throws {BerthError} `home_elsewhere`. */
  async function check({ id }: { readonly id: string }): Promise<void> {
    const found = await database.reads
      .selectFrom('directories as d')
      .leftJoin('nodes as n', 'n.name', 'd.node')
      .select(['d.node', 'd.sftp_host', 'n.api_url'])
      .where('d.id', '=', id)
      .executeTakeFirst();
    if (!found || found.node === config.node) return;
    const { node, sftp_host, api_url } = found;
    const to = api_url ?? `berth on ${sftp_host}`;
    throw new BerthError('home_elsewhere', `The files of this directory are on ${node}: send this request to ${to}`);
  }

  type Operation<Of, About extends readonly unknown[], Result> = (of: Of, ...about: About) => Promise<Result>;

  function reading<Of extends { readonly id: string }, About extends readonly unknown[], Result>(
    read: Operation<Of, About, Result>,
  ): Operation<Of, About, Result> {
    return async (of, ...about) => {
      await check(of);
      return read(of, ...about);
    };
  }

  /** Also refuses while the directory moves. */
  function changing<Of extends { readonly id: string }, About extends readonly unknown[], Result>(
    change: Operation<Of, About, Result>,
  ): Operation<Of, About, Result> {
    return (of, ...about) => moveLock.through(of.id, () => reading(change)(of, ...about));
  }

  return {
    checkHome: check,
    content: reading(own.content),
    contentAt: reading(own.contentAt),
    remove: changing(own.remove),
    removeAt: changing(own.removeAt),
    removePartial: changing(own.removePartial),
    removeChecking: changing(own.removeChecking),
    announcePartial: changing(own.announcePartial),
    place: changing(own.place),
  };
}
