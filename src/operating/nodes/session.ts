/**
 * Makes this machine one of the nodes: it holds its name, reports each second, and receives messages from other nodes. While it is cut
 * off from the database it keeps trying. Its return is reported to the listener, which may have missed messages.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import type { Background } from '../../foundation/base/background.ts';
import { DatabaseUnavailable } from '../../foundation/db/away.ts';
import { historyOf, openDatabaseSession, type DatabaseSession } from '../../foundation/db/session.ts';
import { endHolder, serverTime } from '../../foundation/db/shared.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { replaceFile } from '../../machine/sftp/files.ts';
import { isThere } from '../../foundation/base/files.ts';
import { isSilent, lockOf } from './list.ts';
import type { Ground } from '../../foundation/context.ts';

const BEAT_MS = 1000;
const RETRY_MS = 500;

/** How long another process with the same name may take to end. */
const TAKEOVER_TIMEOUT_MS = 8000;

/** The channel of messages to all nodes. */
const ALL = 'berth nodes';

const NEW_HISTORY =
  'the database has another history than before, for example after a failover or a restore: confirmed changes may be lost; ' +
  'directories deleted on this node stay closed (docs/many-machines.md)';

export interface Listener {
  onMessage(message: string): void;
  /** Called when this node has joined the others, for the first time or again. */
  onJoined(): void;
}

export interface NodeSession {
  /** Sends a message to one node. It may be lost. */
  notify(node: string, message: string): Promise<void>;
  /** Sends a message to all nodes. It may be lost. */
  notifyAll(message: string): Promise<void>;
  /** Whether this node has no connection to the database. */
  isCutOff(): boolean;
  /** This node's connection, for rows that need not survive a crash of the server. @throws while it is cut off. */
  db(): Kysely<Tables>;
  /** Makes this node live. */
  begin(listener: Listener): Promise<void>;
  close(): Promise<void>;
}

/** Takes the node's name. @throws {OperatorError} when another process has it. */
export async function openNodeSession({ config, database, background, log }: Ground): Promise<NodeSession> {
  const { reads } = database;
  const { node, apiUrl, sftp, jailDir, stateDir } = config;
  let listener: Listener | undefined;
  let session: DatabaseSession | undefined;

  /** Undefined while another process holds the name. */
  async function enter(): Promise<DatabaseSession | undefined> {
    const lock = lockOf(node);
    const opened = await openDatabaseSession(config.database, {
      name: lock,
      lock,
      channels: [channelOf(node), ALL],
      onMessage: (_channel, message) => listener?.onMessage(message),
      onLost() {
        session = undefined;
        log.warn('the connection to the database is lost');
      },
    });
    // The server keeps the lock of a process that is cut off until it notices that.
    if (!opened && (await isSilent(reads, node))) await endHolder(reads, lock);
    try {
      if (opened) await compareHistory(opened.db);
    } catch (error) {
      await opened?.close().catch(() => undefined);
      throw error;
    }
    return opened;
  }

  async function beat(): Promise<void> {
    const isNew = session === undefined;
    const entered = (session ??= await enter());
    if (!entered) throw new Error(`another process has the name of the node ${node}`);
    const { bavail, bsize } = await statfs(jailDir);
    const addresses = { api_url: apiUrl ?? null, sftp_host: sftp.host, sftp_port: sftp.port };
    const row = { ...addresses, free_bytes: bavail * bsize, seen_at: serverTime };
    await entered.db
      .insertInto('nodes')
      .values({ name: node, inserted_at: serverTime, ...row })
      .onConflict((conflict) => conflict.column('name').doUpdateSet(row))
      .execute();
    if (isNew) listener?.onJoined();
  }

  /** Logs an error when the database has another history than before: its latest commits may be lost. */
  async function compareHistory(db: Kysely<Tables>): Promise<void> {
    const file = join(stateDir, 'database-history');
    const is = await historyOf(db);
    const was = isThere(file) ? readFileSync(file, 'utf8') : is;
    if (was !== is) log.error({ was, is }, NEW_HISTORY);
    replaceFile(file, is, 0o600);
  }

  const opened = (): DatabaseSession => {
    if (!session) throw new DatabaseUnavailable(new Error('this node is cut off from it'));
    return session;
  };

  for (const over = performance.now() + TAKEOVER_TIMEOUT_MS; !session;) {
    session = await enter();
    if (!session && performance.now() > over) throw taken(node);
    if (!session) await setTimeout(RETRY_MS);
  }
  let heart: ReturnType<Background['start']> | undefined;
  return {
    isCutOff: () => session === undefined,
    db: () => opened().db,
    notify: async (to, message) => opened().notify(channelOf(to), message),
    notifyAll: async (message) => opened().notify(ALL, message),
    async begin(given) {
      listener = given;
      await beat();
      listener.onJoined();
      let isCutOff = false;
      heart = background.start('node', { every: BEAT_MS }, async () => {
        try {
          await beat();
          if (isCutOff) log.info('this node is back among the others');
          isCutOff = false;
          return BEAT_MS;
        } catch (error) {
          if (!isCutOff) log.error({ reason: errorMessage(error) }, 'this node is cut off from the others');
          isCutOff = true;
          const broken = session;
          session = undefined;
          void broken?.close().catch(() => undefined);
          return RETRY_MS;
        }
      });
    },
    async close() {
      await heart?.close();
      await session?.close();
    },
  };
}

/** The name of a node's channel. PostgreSQL allows 63 bytes, as many as a node's name alone may have. */
function channelOf(node: string): string {
  return `berth ${createHash('sha256').update(node).digest('hex').slice(0, 32)}`;
}

function taken(node: string): OperatorError {
  return new OperatorError(`another machine is the node ${node}: set another BERTH_NODE here`);
}
