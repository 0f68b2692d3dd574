/** Wires the deliveries: the sender behind its guard, the dispatcher, and the queue of replays. */
import type { Ground, Store } from '../../foundation/context.ts';
import { version } from '../../foundation/base/version.ts';
import type { Enqueued, Transact } from '../../foundation/db/database.ts';
import { addressRule } from './address-rule.ts';
import { guardedAgents } from './destination-guard.ts';
import { Dispatcher, type DispatcherOptions } from './dispatcher.ts';
import { createSender, type Send } from './send.ts';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { errorMessage } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { Background, Loop } from '../../foundation/base/background.ts';
import type { Clock } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { enqueueNow, replayOf } from './outbox.ts';
import { receiverUrl } from './receiver-of.ts';

export interface Webhooks {
  /** Runs a transaction that may enqueue deliveries. */
  readonly transact: Transact;
  /** Sends one request, without the queue. */
  readonly send: Send;
  /** Whether the settings let webhooks go to an address. */
  readonly mayReach: (address: string) => boolean;
  /** Looks for deliveries and replays that were enqueued outside of `transact`. */
  wake(): void;
  /** Lets attempts in flight end, and records them. */
  close(): Promise<void>;
}

/**
 * @param observe called with each attempt.
 * @throws {OperatorError} when the settings are invalid.
 */
export function startWebhooks(ground: Ground, observe?: DispatcherOptions['observe']): Webhooks {
  const { config, log } = ground;
  const { allow, ca, retryDelays } = config.webhooks;
  const sender = createSender(guardedAgents(allow, undefined, trustedWith(ca, log)), version, log);
  const { send } = sender;
  const dispatcher = new Dispatcher({ ...ground, retryDelays, send, ...(observe && { observe }) });
  const { transact } = dispatcher;
  const replays = startReplayQueue({ ...ground, transact });
  return {
    transact,
    send,
    mayReach: addressRule(allow),
    wake() {
      dispatcher.wake();
      void replays.run();
    },
    async close() {
      await replays.close();
      await dispatcher.close();
      sender.close();
    },
  };
}

/**
 * Trusts Node's authorities and those in the file. If the file cannot be read, logs that and returns undefined, which
 * means Node's alone.
 */
export function trustedWith(file: string | undefined, log: Log): SecureContext | undefined {
  if (file === undefined) return undefined;
  try {
    return createSecureContext({ ca: [...getCACertificates(), readFileSync(file, 'utf8')] });
  } catch (error) {
    const reason = errorMessage(error);
    log.error(
      { reason },
      `BERTH_WEBHOOK_CA: ${file} cannot be used; receivers with certificates of its own are refused`,
    );
    return undefined;
  }
}

// Puts requested replays (`replayFailed`) into the outbox, a few at a time and the oldest of each directory first, so
// that new uploads wait behind few of them. A replay and the removal of its mark are one transaction: after a crash
// the remaining replays continue, and nothing is sent twice.

/** How many deliveries of a destination may be queued while replays are added. */
const AT_ONCE = 50;
/** The pause between batches, in ms. */
const PAUSE_MS = 50;
/** How often to look for replays that another process has requested (`berth directory replay`), in ms. */
const POLL_MS = 10_000;

interface ReplayQueueOptions extends Store {
  readonly transact: Transact;
  readonly background: Background;
}

const nextMarked = compiled<{ after: string }>()((db, p) =>
  db
    .selectFrom('deliveries')
    .select('directory_id')
    .where('replay_at', 'is not', null)
    .where('directory_id', '>', p('after'))
    .orderBy('directory_id')
    .limit(1),
);

export function startReplayQueue({ database, clock, transact, background }: ReplayQueueOptions): Loop {
  let after = '';
  return background.start('replays', { every: POLL_MS, atOnce: true }, async () => {
    const next = await nextMarked.first(database.reads, { after });
    if (!next) {
      const hadSome = after !== '';
      after = '';
      return hadSome ? PAUSE_MS : POLL_MS;
    }
    after = next.directory_id;
    await transact((tx) => addBatch(tx, after, clock));
    return PAUSE_MS;
  });
}

/** Adds one batch of a directory's replays. */
export async function addBatch(tx: Transaction<Tables>, directoryId: string, clock: Clock): Promise<Enqueued<void>> {
  const directory = await tx
    .selectFrom('directories')
    .select(['account_id', 'webhook_url', 'uses_account_webhook'])
    .where('id', '=', directoryId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (!directory) {
    await tx.updateTable('deliveries').set({ replay_at: null }).where('directory_id', '=', directoryId).execute();
    return { value: undefined, destinations: [] };
  }
  const marked = await tx
    .selectFrom('deliveries')
    .selectAll()
    .where('directory_id', '=', directoryId)
    .where('replay_at', 'is not', null)
    .orderBy('inserted_at')
    .limit(AT_ONCE)
    // Skip deliveries that another node is replaying.
    .forNoKeyUpdate()
    .skipLocked()
    .execute();
  const url = await receiverUrl(tx, directory);
  const destinations: string[] = [];
  for (const old of marked) {
    // Without a URL the replay fails like any delivery, and can be replayed again.
    const row = replayOf(old, url ?? old.url, clock.now());
    if (destinations.length === 0 && (await isBusy(tx, row.destination))) break;
    await enqueueNow(tx, row);
    await tx.updateTable('deliveries').set({ replay_at: null, replayed_as: row.id }).where('id', '=', old.id).execute();
    destinations.push(row.destination);
  }
  return { value: undefined, destinations };
}

async function isBusy(tx: Kysely<Tables>, destination: string): Promise<boolean> {
  const queued = await tx
    .selectFrom('deliveries')
    .select('id')
    .where('state', '=', sql.lit('queued'))
    .where('destination', '=', destination)
    .limit(AT_ONCE)
    .execute();
  return queued.length === AT_ONCE;
}
