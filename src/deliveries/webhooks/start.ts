/** Wires the deliveries: the sender behind its guard, the dispatcher, and the queue of replays. */
import type { Ground } from '../../foundation/context.ts';
import { version } from '../../foundation/base/version.ts';
import type { Transact } from '../../foundation/db/transact.ts';
import { addressRule } from './address-rule.ts';
import { guardedAgents } from './destination-guard.ts';
import { Dispatcher, type DispatcherOptions } from './dispatcher.ts';
import { startReplayQueue } from './replay-queue.ts';
import { createSender, type Send } from './send.ts';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { errorMessage } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';

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
