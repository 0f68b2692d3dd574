/**
 * A complete move, as the command runs it. After any interruption, repeating it continues: copied files are not sent again,
 * and for a directory that has moved already it only waits until the new home lets its user in.
 */
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Clock } from '../../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../../foundation/db/schema.ts';
import { BerthError, OperatorError } from '../../../foundation/base/errors.ts';
import { isLive } from '../list.ts';
import { createRequests } from '../requests.ts';
import { copyTo } from './copy.ts';
import type { Departure } from './departure.ts';
import { type Move, rehome } from './rehome.ts';

export interface MoveContext {
  readonly db: Kysely<Tables>;
  readonly here: string;
  readonly jailDir: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  progress(line: string): void;
  /** Has this node's service let the directory go. When it resolves, no session is in the directory any more. */
  depart(move: Pick<Move, 'id' | 'to'>): Promise<Departure>;
}

export interface WantedMove {
  readonly directory: Pick<DirectoryRow, 'id' | 'sftp_username'>;
  readonly to: string;
  /** Both nodes have their jails on the same storage, so files need not be copied. */
  readonly isShared: boolean;
  /** The present home is off, and stays off until the move is done. */
  readonly isOff: boolean;
  /** The words of the command that runs another command on the new home; `ssh root@…` by default. */
  readonly ssh: readonly string[] | undefined;
  /** For the audit. */
  readonly by: Move['by'];
}

export interface MoveOutcome extends Pick<DirectoryRow, 'id' | 'sftp_username' | 'sftp_host' | 'sftp_port'> {
  /** The earlier home; null when the directory was on `to` already. */
  readonly from: string | null;
  readonly to: string;
  /** How long nobody could log in; null when the old home was off, or nothing was left to do. */
  readonly locked_out_ms: number | null;
  /** False while the new home has yet to let its user in. */
  readonly is_live: boolean;
}

/** @throws {OperatorError} with the reason. The directory is then still where it was. */
export async function runMove(context: MoveContext, wanted: WantedMove): Promise<MoveOutcome> {
  const { db, here } = context;
  const { to, isOff } = wanted;
  const at = await placeOf(db, wanted.directory);
  if (at.node !== to && isOff) return takeOver(context, wanted, at.node);
  if (at.node !== to && at.node === here) return send(context, wanted);
  if (at.node !== to) {
    throw new OperatorError(
      `the directory is at home on ${at.node}: run this there, or add --it-is-off if that node is off for good`,
    );
  }
  const { node: _, version, ...address } = at;
  const { id, sftp_username } = wanted.directory;
  const is_live = await isAppliedSoon(db, { id, node: to, version });
  return { id, sftp_username, ...address, from: null, to, locked_out_ms: null, is_live };
}

async function placeOf(db: Kysely<Tables>, { id }: Pick<DirectoryRow, 'id'>) {
  return db
    .selectFrom('directories')
    .select(['node', 'sftp_host', 'sftp_port', 'version'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
}

async function send(context: MoveContext, { directory, to, isShared, ssh }: WantedMove): Promise<MoveOutcome> {
  const { db, here, jailDir, signal, progress } = context;
  const { id, sftp_username } = directory;
  const from = join(jailDir, sftp_username, 'files');
  const words = ssh ?? ['ssh', `root@${await addressOf(db, to)}`];
  const copy = await copyTo({ id, to, ssh: words, from, isShared, signal });
  progress(`Copying ${sftp_username} to ${to}`);
  await copy.present();
  progress('Ending its sessions');
  const began = performance.now();
  const departure = await context.depart({ id, to });
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
  { db, clock }: MoveContext,
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
  const is_live = await isAppliedSoon(db, moved);
  return { id, sftp_username, from, to, sftp_host, sftp_port, locked_out_ms: null, is_live };
}

async function addressOf(db: Kysely<Tables>, name: string): Promise<string> {
  const node = await db.selectFrom('nodes').select('sftp_host').where('name', '=', name).executeTakeFirst();
  if (!node) throw new OperatorError(`no node is called ${name}: see berth node list`);
  return node.sftp_host;
}

/** Waits until the home lets the directory's user in; false when that takes long. No message is sent: the home polls. */
async function isAppliedSoon(
  reads: Kysely<Tables>,
  request: Pick<DirectoryRow, 'id' | 'node' | 'version'>,
): Promise<boolean> {
  const silent = { notify: async () => undefined, notifyAll: async () => undefined };
  try {
    await createRequests(reads, silent, () => undefined).send(request, false);
    return true;
  } catch (error) {
    if (error instanceof BerthError) return false;
    throw error;
  }
}
