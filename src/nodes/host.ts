/**
 * The host of every directory, wherever it is at home: this machine follows a change of its own ones, and the home of any
 * other is asked to.
 *
 * Promise: what a change made of a directory here is not undone by an earlier one. Changes of other nodes come by another
 * way than those of this one, so their order is not that of the commits.
 */
import type { Kysely } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../base/clock.ts';
import type { Tables } from '../db/schema.ts';
import type { DirectoryHost } from '../directories/host.ts';
import type { Version } from '../directories/homes.ts';
import type { Log } from '../base/log.ts';
import type { MoveLock } from './move/move-lock.ts';
import { quotaObstacleOf } from './quotas.ts';
import type { Requests } from './requests.ts';
import type { Tombstones } from './tombstones.ts';

const LOST_DELETION =
  'a directory that was deleted on this node is in the database again, which has lost that: nobody is let in; delete it ' +
  'again (docs/many-machines.md)';

export interface HostOfAllOptions {
  readonly here: string;
  readonly reads: Kysely<Tables>;
  readonly local: DirectoryHost;
  readonly requests: Pick<Requests, 'ask'>;
  readonly tombstones: Tombstones;
  /** A directory that leaves is not opened again. */
  readonly moveLock: Pick<MoveLock, 'pass' | 'isShut'>;
  readonly clock: Clock;
  readonly log: Log;
}

export interface HostOfAll extends DirectoryHost {
  /** Version numbers may repeat: a database that has lost its last commits numbers the next ones like them. */
  forget(): void;
  /** From that version on, the directory is at home elsewhere. */
  departed(version: Version): void;
}

export function hostOfAll({
  here,
  reads,
  local,
  requests,
  tombstones,
  moveLock,
  clock,
  log,
}: HostOfAllOptions): HostOfAll {
  /** The latest versions of directories that are at home here. */
  const latest = new LRUCache<string, number>({ max: 10_000 });

  /** Does it unless a later version has come before. */
  async function inOrder({ id, version }: Version, follow: () => Promise<void>): Promise<void> {
    const before = latest.get(id);
    if (before !== undefined && before > version) return;
    latest.set(id, version);
    try {
      await follow();
    } catch (error) {
      if (latest.get(id) === version) latest.delete(id);
      throw error;
    }
  }

  return {
    ...local,
    async apply(directory, isNew = false) {
      if (directory.node !== here) return requests.ask(directory, isNew);
      moveLock.pass(directory.id);
      if (!tombstones.has(directory.sftp_username)) {
        await inOrder(directory, () => local.apply(directory));
        // The node that set the expiry cannot end sessions here.
        if (directory.expires_at !== null && directory.expires_at <= clock.now()) await local.endSessions(directory);
        return;
      }
      await local.shutOut(directory);
      log.error({ directory_id: directory.id, username: directory.sftp_username }, LOST_DELETION);
    },
    quotaObstacle: async (directory) =>
      directory.node === here ? local.quotaObstacle(directory) : quotaObstacleOf(reads, directory.node),
    isApplied: (directory) =>
      !tombstones.has(directory.sftp_username) && !moveLock.isShut(directory.id) && local.isApplied(directory),
    async remove(directory, isNew = false) {
      if (directory.node !== here) return requests.ask(directory, isNew);
      await inOrder(directory, () => local.remove(directory));
      await tombstones.add(directory.sftp_username);
    },
    // Elsewhere these follow from the change itself.
    async shutOut(directory) {
      if (directory.node === here) await local.shutOut(directory);
    },
    async endSessions(directory) {
      if (directory.node === here) await local.endSessions(directory);
    },
    forget: () => latest.clear(),
    departed: ({ id, version }) => void latest.set(id, version),
  };
}
