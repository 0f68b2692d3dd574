/**
 * Pages that follow what happens, by server-sent events: a part of the page is sent again after each change, at most once a
 * second, and as fast as the reader takes it. Nothing is held for one who does not read.
 *
 * Promise: a stream ends with its session, its directory, its client and the service. None keeps a session alive.
 */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { streamSSE } from 'hono/streaming';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../db/open.ts';
import { liveDirectory } from '../directories/target.ts';
import { BerthError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { FileChanges } from '../uploads/file-changes.ts';
import { sessionOf, type SignedIn } from '../users/sessions.ts';
import { type PageContext, targetOf } from './environment.ts';
import { sessionToken } from './session-cookie.ts';

/** How many streams at once a user, who has some tabs, an account, and all may have. */
const [OF_USER, OF_ACCOUNT, IN_ALL] = [6, 30, 200];
/** Between two looks at the session while nothing happens, and at least between two parts, in ms. */
const BEAT_MS = 10_000;
const PAUSE_MS = 1000;

export interface LiveOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly changes: FileChanges;
  /** Aborted when the service closes. */
  readonly closing: AbortSignal;
  readonly log: Log;
}

/** The changes that a page follows. */
export interface Followed {
  /** The directory whose files the page shows; undefined for a page of the whole account. */
  readonly directoryId?: string;
  /** How often to look for changes that nobody reports, in ms. */
  readonly every?: number;
}

/** Sends what `render` returns, and sends it again whenever it differs. */
export type Live = (c: PageContext, followed: Followed, render: () => Promise<string>) => Promise<Response>;

export function createLive({ database, clock, changes, closing, log }: LiveOptions): Live {
  /** The users of the open streams, one entry for each stream. */
  const open: SignedIn[] = [];

  function isOver(user: SignedIn): boolean {
    const ofAccount = open.filter(({ principal }) => principal.accountId === user.principal.accountId);
    const own = ofAccount.filter(({ userId }) => userId === user.userId);
    return open.length >= IN_ALL || ofAccount.length >= OF_ACCOUNT || own.length >= OF_USER;
  }

  /** Whether the user may still see the page. */
  async function isAllowed(c: PageContext, directoryId: string | undefined): Promise<boolean> {
    const user = await sessionOf({ database, clock }, sessionToken(c) ?? '');
    if (!user || user.awaitsCode || user.needsSecondFactor) return false;
    if (directoryId === undefined) return true;
    try {
      await liveDirectory(database.reads, targetOf(c, directoryId));
      return true;
    } catch (error) {
      if (error instanceof BerthError) return false;
      throw error;
    }
  }

  return async (c, { directoryId, every = BEAT_MS }, render) => {
    const { outgoing } = c.env;
    const user = c.get('user');
    // Without a socket, its end would not be announced.
    if (!outgoing.socket) await once(outgoing, 'socket');
    // Says to an EventSource that it need not try again (HTML, section 9.2.3).
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

    // nginx would gather them.
    c.header('x-accel-buffering', 'no');
    return streamSSE(c, async (stream) => {
      try {
        while (!ended.aborted) {
          // The page is loaded again, and says what has become of it.
          if (!(await isAllowed(c, directoryId))) {
            await stream.writeSSE({ event: 'end', data: '' });
            return;
          }
          if (isDue) {
            isDue = false;
            const data = await render();
            if (data === sent && every < BEAT_MS) await stream.write(':\n\n');
            else await stream.writeSSE({ event: 'list', data });
            sent = data;
            await wait(PAUSE_MS, undefined, { signal: ended });
          } else await stream.write(':\n\n');
          const { promise, resolve } = Promise.withResolvers<void>();
          const timer = setTimeout(every < BEAT_MS ? changed : resolve, every);
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
