/**
 * A move from beginning to end, as the command does it. Repeated after whatever interruption, it goes on: files that were
 * copied are not sent again, and of a directory that is there already its home is waited for.
 */
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Clock } from '../../base/clock.ts';
import type { DirectoriesTable, Tables } from '../../db/schema.ts';
import { BerthError, OperatorError } from '../../base/errors.ts';
import { isLive } from '../live.ts';
import { createRequests } from '../requests.ts';
import { copyTo } from './copy.ts';
import type { Departure } from './departure.ts';
import { type Move, rehome } from './rehome.ts';

export interface MoveOptions {
  readonly db: Kysely<Tables>;
  readonly here: string;
  readonly jailDir: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  progress(line: string): void;
  /** Has the service here let the directory go: nobody is in there any more when it resolves. */
  depart(move: Pick<Move, 'id' | 'to'>): Promise<Departure>;
}

export interface WantedMove {
  readonly directory: Pick<DirectoriesTable, 'id' | 'sftp_username'>;
  readonly to: string;
  /** Both nodes have their jails on the same storage: files need not be copied. */
  readonly isShared: boolean;
  /** The node that it comes from is off, and stays off until this is done. */
  readonly isOff: boolean;
  /** The arguments of the command that runs another one on the new home; `ssh root@…` when left out. */
  readonly ssh: readonly string[] | undefined;
  /** For the audit. */
  readonly by: Move['by'];
}

export interface MoveOutcome extends Pick<DirectoriesTable, 'id' | 'sftp_username' | 'sftp_host' | 'sftp_port'> {
  /** Where it was; null when it was there already. */
  readonly from: string | null;
  readonly to: string;
  /** How long nobody could log in, in ms; null when the old home was off, or nothing was left to do. */
  readonly locked_out_ms: number | null;
  /** False while the new home has yet to let its user in. */
  readonly is_live: boolean;
}

/** @throws {OperatorError} that says why not: the directory is where it was. */
export async function runMove(options: MoveOptions, wanted: WantedMove): Promise<MoveOutcome> {
  const { db, here } = options;
  const { to, isOff } = wanted;
  const at = await placeOf(db, wanted.directory);
  if (at.node !== to && isOff) return takeOver(options, wanted, at.node);
  if (at.node !== to && at.node === here) return send(options, wanted);
  if (at.node !== to) {
    throw new OperatorError(
      `the directory is at home on ${at.node}: run this there, or add --it-is-off when that is off for good`,
    );
  }
  const { node: _, version, ...address } = at;
  const { id, sftp_username } = wanted.directory;
  const is_live = await hasFollowed(db, { id, node: to, version });
  return { id, sftp_username, ...address, from: null, to, locked_out_ms: null, is_live };
}

async function placeOf(db: Kysely<Tables>, { id }: Pick<DirectoriesTable, 'id'>) {
  return db
    .selectFrom('directories')
    .select(['node', 'sftp_host', 'sftp_port', 'version'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
}

async function send(options: MoveOptions, { directory, to, isShared, ssh }: WantedMove): Promise<MoveOutcome> {
  const { db, here, jailDir, signal, progress } = options;
  const { id, sftp_username } = directory;
  const from = join(jailDir, sftp_username, 'files');
  const words = ssh ?? ['ssh', `root@${await addressOf(db, to)}`];
  const copy = await copyTo({ id, to, ssh: words, from, isShared, signal });
  progress(`Copying ${sftp_username} to ${to}`);
  await copy.present();
  progress('Ending its sessions');
  const began = performance.now();
  const departure = await options.depart({ id, to });
  try {
    await copy.changes();
    const { isApplied: is_live, sftp_host, sftp_port } = await departure.commit();
    const locked_out_ms = Math.round(performance.now() - began);
    return { id, sftp_username, from: here, to, sftp_host, sftp_port, locked_out_ms, is_live };
  } finally {
    await departure.end();
  }
}

async function takeOver(
  { db, clock }: MoveOptions,
  { directory, to, by }: WantedMove,
  from: string,
): Promise<MoveOutcome> {
  const old = await db
    .selectFrom('nodes as n')
    .select(isLive('n.name').as('is_live'))
    .where('n.name', '=', from)
    .executeTakeFirst();
  if (old?.is_live) throw new OperatorError(`${from} is live: run this there, without --it-is-off`);
  const moved = await rehome(db, { id: directory.id, from, to, by }, clock.now());
  const { id, sftp_username, sftp_host, sftp_port } = moved;
  const is_live = await hasFollowed(db, moved);
  return { id, sftp_username, from, to, sftp_host, sftp_port, locked_out_ms: null, is_live };
}

async function addressOf(db: Kysely<Tables>, name: string): Promise<string> {
  const node = await db.selectFrom('nodes').select('sftp_host').where('name', '=', name).executeTakeFirst();
  if (!node) throw new OperatorError(`no node is called ${name}: see berth node list`);
  return node.sftp_host;
}

/** Waits until its home lets its user in; false when that takes long. No request is sent: the home polls. */
async function hasFollowed(
  reads: Kysely<Tables>,
  request: Pick<DirectoriesTable, 'id' | 'node' | 'version'>,
): Promise<boolean> {
  const silent = { tell: async () => undefined, tellAll: async () => undefined };
  try {
    await createRequests({ reads, session: silent, apply: () => undefined }).ask(request, false);
    return true;
  } catch (error) {
    if (error instanceof BerthError) return false;
    throw error;
  }
}
