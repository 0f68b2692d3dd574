/** File operations, for directories that are at home here. The files of others are on other machines, which nodes do not contact. */
import type { Kysely } from 'kysely';
import type { Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { DirectoryFiles } from '../../arrivals/files/directory-files.ts';
import type { MoveLock } from './move/move-lock.ts';

export function filesHere(
  own: DirectoryFiles,
  {
    reads,
    here,
    moveLock,
  }: { readonly reads: Kysely<Tables>; readonly here: string; readonly moveLock: Pick<MoveLock, 'through'> },
): DirectoryFiles {
  /** @throws {BerthError} `home_elsewhere`. */
  async function check({ id }: { readonly id: string }): Promise<void> {
    const found = await reads
      .selectFrom('directories as d')
      .leftJoin('nodes as n', 'n.name', 'd.node')
      .select(['d.node', 'd.sftp_host', 'n.api_url'])
      .where('d.id', '=', id)
      .executeTakeFirst();
    if (!found || found.node === here) return;
    const { node, sftp_host, api_url } = found;
    const to = api_url ?? `berth on ${sftp_host}`;
    throw new BerthError('home_elsewhere', `The files of this directory are on ${node}: send this request to ${to}`);
  }

  return {
    checkHome: check,
    async content(jail, uploadId) {
      await check(jail);
      return own.content(jail, uploadId);
    },
    async contentAt(jail, path) {
      await check(jail);
      return own.contentAt(jail, path);
    },
    removeAt: (target, ...about) =>
      moveLock.through(target.id, async () => {
        await check(target);
        return own.removeAt(target, ...about);
      }),
    remove: (target, ...about) =>
      moveLock.through(target.id, async () => {
        await check(target);
        return own.remove(target, ...about);
      }),
    announcePartial: (target, ...about) =>
      moveLock.through(target.id, async () => {
        await check(target);
        return own.announcePartial(target, ...about);
      }),
    removePartial: (target, ...about) =>
      moveLock.through(target.id, async () => {
        await check(target);
        return own.removePartial(target, ...about);
      }),
    removeChecking: (target, ...about) =>
      moveLock.through(target.id, async () => {
        await check(target);
        return own.removeChecking(target, ...about);
      }),
    place: (target, ...about) =>
      moveLock.through(target.id, async () => {
        await check(target);
        return own.place(target, ...about);
      }),
  };
}
