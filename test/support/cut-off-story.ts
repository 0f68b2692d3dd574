/** A story of two sessions whose names the log cuts off. The test says what its process holds, and what is in the folder. */
import type { FileAlike } from '../../src/arrivals/uploads/log/journal-record.ts';
import { readEvent } from '../../src/arrivals/uploads/log/log-line.ts';
import type { HeldPath } from '../../src/arrivals/uploads/processes.ts';
import type { Operation } from '../../src/arrivals/uploads/story/operations.ts';
import { Story, type StoryOptions } from '../../src/arrivals/uploads/story/story.ts';

/** 2026, in µs. */
export const BEGINNING = 1_790_000_000_000_000;
export const NAME = 'n'.repeat(520);
export const WHOLE: HeldPath = { path: `${NAME}-whole`, inode: 1 };
export const HALF: HeldPath = { path: `${NAME}-half`, inode: 2 };
export const OPEN = `open "${NAME}`.slice(0, 500);
export const CLOSE = `close "${NAME}`.slice(0, 500);

const FILE = {
  size: 4,
  blocks: 8,
  mtimeMs: 0,
  ctimeMs: 0,
  birthtimeMs: 0,
  isFile: () => true,
  isDirectory: () => false,
};

/**
 * A story of two sessions, 1 and 2. Their processes hold what the test says; undefined when they have gone. With `hasMoved`,
 * nothing is at any path.
 */
export function storyOf({ hasMoved = false } = {}) {
  const puts: string[] = [];
  const held = new Map<number, readonly HeldPath[] | undefined>([
    [1, []],
    [2, []],
  ]);
  const lost: boolean[] = [];
  let ms = 0;
  let isFresh = true;
  const shown = (operation: Operation): void => {
    if (operation.kind !== 'put') return;
    const { isComplete, isDoubted } = operation.end;
    puts.push(
      `${operation.path.slice(NAME.length + 1)} ${isComplete ? (isDoubted ? 'doubted' : 'complete') : 'dropped'}`,
    );
  };
  const options: StoryOptions = {
    directoryId: 'd',
    lstat: (path) => (hasMoved ? undefined : { ...FILE, ino: path === WHOLE.path || path.endsWith('7') ? 1 : 2 }),
    heldBy: (pid) => held.get(pid),
    isHeldBy: () => true,
    isGone: (pid) => held.get(pid) === undefined,
    timesHeldBy: () => 0,
    isTemporary: () => false,
    monotonic: () => ms,
    happened: shown,
    homeless: () => undefined,
    doubted: () => undefined,
    cutOff: (_start, { isComplete }) => void lost.push(isComplete),
    look: () => undefined,
    moved: () => undefined,
    compare: () => undefined,
    note: () => undefined,
    provenFrom: -Infinity,
  };
  let story = new Story(options);
  for (const pid of [1, 2]) story.begin({ by: { pid, address: '' }, openedAt: BEGINNING, born: undefined }, BEGINNING);
  return {
    puts,
    lost: () => lost.length,
    /** How many of these count as complete. */
    lostComplete: () => lost.filter(Boolean).length,
    /** Whether a look waits for a session that may have the file open. */
    isAwaited: ({ path, inode }: HeldPath): boolean => story.mayHold(path, inode),
    /**
     * sshd logs a line; the process holds `then` when the listener reads it, and `now` afterwards.
     * @param alike the files that its name may mean.
     * @param pid the process of the session.
     */
    line(
      text: string,
      then: readonly HeldPath[] | undefined,
      now: readonly HeldPath[] | undefined,
      alike?: readonly FileAlike[],
      pid = 1,
    ): void {
      held.set(pid, now);
      const [at, event] = [BEGINNING + (ms += 1) * 1000, readEvent(text)];
      story.add({ at, pid, event, held: then, alike, isFresh });
      story.advance(10);
    },
    passes(until: number, now: readonly HeldPath[] | undefined): void {
      held.set(1, now);
      for (; ms < until; ms += 1) story.advance(10);
    },
    /** Berth is started again, and the journal had been compacted. */
    restarts(): void {
      const kept = JSON.parse(JSON.stringify(story.kept())) as ReturnType<Story['kept']>;
      story = new Story(options);
      story.restore(kept);
    },
    /** Berth compares the handles that it knows with what the process holds, after a start. */
    compares(now: readonly HeldPath[]): void {
      story.compareHandles(1, now)(now, BEGINNING + ms * 1000);
    },
    /** An earlier process has read the lines that follow, or that is over. */
    readsAgain(isAgain: boolean): void {
      isFresh = !isAgain;
    },
    dies(): void {
      held.delete(1);
      story.end(1, BEGINNING + ms * 1000, 'killed');
    },
  };
}
