/**
 * Pages that follow changes, by server-sent events: a part of the page is sent again after each change, at most once a second,
 * and no faster than the client reads it. Nothing is queued for a client that does not read.
 *
 * Promise: a stream ends when its session, its directory, its client or the service ends. It does not keep its session alive.
 */
import { once } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import { setTimeout as wait } from 'node:timers/promises';
import { streamSSE } from 'hono/streaming';
import { liveDirectory } from '../../rules/directories/target.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { AppContext } from '../web/context.ts';
import { sessionOf, type SignedIn } from '../../rules/users/sessions.ts';
import { type PageContext, targetOf } from './environment.ts';
import { sessionToken } from './session-cookie.ts';
import { html } from 'hono/html';
import type { Child } from 'hono/jsx';
import { RequestContext } from 'hono/jsx-renderer';

/** How many streams there may be at once: of a user (who may have several tabs), of an account, and in total. */
const MOST_OF_USER = 6;
const MOST_OF_ACCOUNT = 30;
const MOST_IN_TOTAL = 200;
/** How often the session is checked while nothing happens. */
const BEAT_MS = 10_000;
/** The shortest time between two parts. */
const PAUSE_MS = 1000;

/** The changes that a page follows. */
export interface Followed {
  /** The directory whose files the page shows; undefined for a page of the whole account. */
  readonly directoryId?: string;
  /** How often to render the part again, for changes that nothing reports. */
  readonly everyMs?: number;
}

/** Sends the part that `render` returns, and sends it again whenever it has changed. */
export type Live = (c: PageContext, followed: Followed, render: () => Promise<string>) => Promise<Response>;

/** @param closing aborted when the service closes. */
export function createLive(
  { database, clock, changes, log }: Pick<AppContext, 'database' | 'clock' | 'changes' | 'log'>,
  closing: AbortSignal,
): Live {
  /** The user of each open stream. */
  const open: SignedIn[] = [];

  function isOver(user: SignedIn): boolean {
    const ofAccount = open.filter(({ principal }) => principal.accountId === user.principal.accountId);
    const own = ofAccount.filter(({ userId }) => userId === user.userId);
    return open.length >= MOST_IN_TOTAL || ofAccount.length >= MOST_OF_ACCOUNT || own.length >= MOST_OF_USER;
  }

  /** Whether the user may still see the page. */
  async function isAllowed(c: PageContext, directoryId: string | undefined): Promise<boolean> {
    const user = await sessionOf({ database, clock }, sessionToken(c) ?? '');
    if (!user || user.awaitsCode || user.needsSecondFactor) return false;
    // The page was made for the limits that the user had.
    if (!isDeepStrictEqual(user.principal.scope, c.get('user').principal.scope)) return false;
    if (directoryId === undefined) return true;
    try {
      await liveDirectory(database.reads, targetOf(c, directoryId));
      return true;
    } catch (error) {
      if (error instanceof BerthError) return false;
      throw error;
    }
  }

  return async (c, { directoryId, everyMs = BEAT_MS }, render) => {
    const { outgoing } = c.env;
    const user = c.get('user');
    // Without a socket, there would be no event at its end.
    if (!outgoing.socket) await once(outgoing, 'socket');
    // 204 makes an EventSource stop (HTML, section 9.2.3).
    if (isOver(user) || outgoing.destroyed || closing.aborted) return c.body(null, 204);
    const gone = new AbortController();
    const ended = AbortSignal.any([gone.signal, closing]);
    let isDue = true;
    let wake = (): void => undefined;
    const changed = (): void => {
      isDue = true;
      wake();
    };
    const unwatch = directoryId === undefined ? () => undefined : changes.watch(directoryId, changed);
    let sent = '';
    open.push(user);
    outgoing.once('close', () => {
      open.splice(open.indexOf(user), 1);
      unwatch();
      gone.abort();
    });
    ended.addEventListener('abort', () => wake());

    // nginx would buffer the events.
    c.header('x-accel-buffering', 'no');
    return streamSSE(c, async (stream) => {
      try {
        while (!ended.aborted) {
          // Makes the browser reload the page, which then shows what has happened.
          if (!(await isAllowed(c, directoryId))) {
            await stream.writeSSE({ event: 'end', data: '' });
            return;
          }
          if (isDue) {
            isDue = false;
            const data = await render();
            if (data === sent && everyMs < BEAT_MS) await stream.write(':\n\n');
            else await stream.writeSSE({ event: 'list', data });
            sent = data;
            await wait(PAUSE_MS, undefined, { signal: ended });
          } else await stream.write(':\n\n');
          const { promise, resolve } = Promise.withResolvers<void>();
          const timer = setTimeout(everyMs < BEAT_MS ? changed : resolve, everyMs);
          wake = resolve;
          if (!isDue && !ended.aborted) await promise;
          clearTimeout(timer);
        }
      } catch (error) {
        if (!ended.aborted) log.error({ err: error, request_id: c.env.notes.id }, 'a live page failed');
      }
    });
  };
}

/** Renders a part of a page alone, with the request that its components need. */
export async function renderedIn(c: PageContext, part: Child): Promise<string> {
  const page = await html`${<RequestContext.Provider value={c}>{part}</RequestContext.Provider>}`;
  return page.toString();
}
