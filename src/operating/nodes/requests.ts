/**
 * Sends requests to a directory's home to apply a change, and waits until it has. The mark in the database is the request
 * (`directories/pending-apply.ts`), and its `done` the answer. Messages between nodes only save time.
 */
import { setTimeout } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { compiled } from '../../foundation/db/compiled.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import type { Version } from '../../rules/directories/host.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import { isLive } from './list.ts';
import type { NodeSession } from './session.ts';

/** The message to a home that it has to apply something, with the directory's id. */
const APPLY = 'apply';
/** The message to all nodes that a home has applied something, with the directory's id. */
const APPLIED = 'applied';

/** How long a home may take. A new directory can have another home instead. */
const TIMEOUT_MS = 9000;
const NEW_TIMEOUT_MS = 3000;
/** How often the database is polled, since a message may be lost. */
const POLL_MS = 200;

export interface Request extends Version {
  readonly node: string;
}

export interface Requests {
  /**
   * Resolves once the home has applied this version, or a later one.
   * @param isNew whether the directory was created just now: then this does not wait for a home that is away.
   * @throws {BerthError} `home_unavailable`. The change is then applied later.
   */
  send(request: Request, isNew: boolean): Promise<void>;
  applied(id: string): Promise<void>;
  /** Handles a message to this node. */
  onMessage(message: string): void;
}

const state = compiled<{ id: string }>()((db, p) =>
  db
    .selectFrom('directories as d')
    .leftJoin('unapplied as u', 'u.directory_id', 'd.id')
    .select(['u.done', isLive('d.node').as('is_live')])
    .where('d.id', '=', p('id')),
);

/**
 * @param session the command that moves a directory has one that sends no messages.
 * @param apply called when this node has to apply a change of that directory.
 */
export function createRequests(
  reads: Kysely<Tables>,
  session: Pick<NodeSession, 'notify' | 'notifyAll'>,
  apply: (id: string) => void,
): Requests {
  /** Waiting callers by directory id. */
  const waiting = new Map<string, Set<() => void>>();

  /** Resolves when the home has sent a message, or after a while. */
  async function answer(id: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waitersForDirectory = waiting.get(id) ?? new Set();
    waiting.set(id, waitersForDirectory.add(resolve));
    await Promise.race([promise, setTimeout(POLL_MS, undefined, { ref: false })]);
    waitersForDirectory.delete(resolve);
    if (waitersForDirectory.size === 0) waiting.delete(id);
  }

  return {
    async send({ id, node, version }, isNew) {
      const over = performance.now() + (isNew ? NEW_TIMEOUT_MS : TIMEOUT_MS);
      const sent = session.notify(node, `${APPLY} ${id}`).catch(() => undefined);
      while (performance.now() < over) {
        await answer(id);
        await sent;
        const found = await state.first(reads, { id });
        // The row is removed after the jail, and the mark once no power cut can undo the change.
        if (!found || found.done === null || found.done >= version) return;
        if (isNew && !found.is_live) break;
      }
      throw away(node);
    },
    applied: (id) => session.notifyAll(`${APPLIED} ${id}`),
    onMessage(message) {
      const [what, id = ''] = message.split(' ');
      if (what === APPLY) apply(id);
      else if (what === APPLIED) waiting.get(id)?.forEach((resolve) => resolve());
    },
  };
}

function away(node: string): BerthError {
  return new BerthError(
    'home_unavailable',
    `${node}, where this directory is at home, does not answer; it applies the change when it is back`,
  );
}
