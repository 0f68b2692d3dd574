/**
 * Asks the home of a directory to follow a change, and waits until it has. The mark in the database is the request
 * (`directories/unapplied.ts`), and its `done` the answer; what nodes say to each other only saves time.
 */
import { setTimeout } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { compiled } from '../db/compiled.ts';
import type { Tables } from '../db/schema.ts';
import type { Version } from '../directories/homes.ts';
import { BerthError } from '../base/errors.ts';
import { isLive } from './live.ts';
import type { NodeSession } from './session.ts';

/** Said to a home, with the directory's id. */
const APPLY = 'apply';
/** Said to all when a home has applied something, with the directory's id. */
const APPLIED = 'applied';

/** How long a home may take; a new directory can go elsewhere instead. */
const TIMEOUT_MS = 9000;
const NEW_TIMEOUT_MS = 3000;
/** How often the database is polled: a notification may be lost. */
const POLL_MS = 200;

export interface Request extends Version {
  readonly node: string;
}

export interface Requests {
  /**
   * Resolves once the home has followed this version, or a later one.
   * @param isNew whether nobody knows of the directory yet: then a home that is away is not waited for.
   * @throws {BerthError} `home_unavailable`: the change stays wanted.
   */
  ask(request: Request, isNew: boolean): Promise<void>;
  applied(id: string): Promise<void>;
  /** Takes a message to this node. */
  heard(message: string): void;
}

export interface RequestsOptions {
  readonly reads: Kysely<Tables>;
  readonly session: Pick<NodeSession, 'tell' | 'tellAll'>;
  /** Called when this node has to follow a change of that directory. */
  apply(id: string): void;
}

const state = compiled<{ id: string }>()((db, p) =>
  db
    .selectFrom('directories as d')
    .leftJoin('unapplied as u', 'u.directory_id', 'd.id')
    .select(['u.done', isLive('d.node').as('is_live')])
    .where('d.id', '=', p('id')),
);

export function createRequests({ reads, session, apply }: RequestsOptions): Requests {
  /** Waiting callers by directory id. */
  const waiting = new Map<string, Set<() => void>>();

  /** Resolves when the home has said something, or after a while. */
  async function answer(id: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const ofSame = waiting.get(id) ?? new Set();
    waiting.set(id, ofSame.add(resolve));
    await Promise.race([promise, setTimeout(POLL_MS, undefined, { ref: false })]);
    ofSame.delete(resolve);
    if (ofSame.size === 0) waiting.delete(id);
  }

  return {
    async ask({ id, node, version }, isNew) {
      const over = performance.now() + (isNew ? NEW_TIMEOUT_MS : TIMEOUT_MS);
      const said = session.tell(node, `${APPLY} ${id}`).catch(() => undefined);
      while (performance.now() < over) {
        await answer(id);
        await said;
        const found = await state.first(reads, { id });
        // Its row goes after its jail, and its mark when no power cut can undo what was applied.
        if (!found || found.done === null || found.done >= version) return;
        if (isNew && !found.is_live) break;
      }
      throw away(node);
    },
    applied: (id) => session.tellAll(`${APPLIED} ${id}`),
    heard(message) {
      const [what, id = ''] = message.split(' ');
      if (what === APPLY) apply(id);
      else if (what === APPLIED) waiting.get(id)?.forEach((resolve) => resolve());
    },
  };
}

function away(node: string): BerthError {
  return new BerthError(
    'home_unavailable',
    `${node}, where this directory is at home, does not answer; the change is applied when it is back`,
  );
}
