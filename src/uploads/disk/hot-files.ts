/**
 * Files that change all the time, such as a large upload under way: chokidar looks at a file at each event, some thousand
 * times a second, which takes the processor from the upload. Beyond a few looks a second such a file is left alone, and
 * reported once instead when the second is over, so that no change goes by unseen.
 */

/** Looks at one file within a second that are let through; chokidar asks once or twice for each. */
const LOOKS = 20;
const WINDOW_MS = 1000;

export interface HotFiles {
  /** Whether to leave that file alone now. */
  isHot(path: string): boolean;
  close(): void;
}

/**
 * @param isFile whether it is a file now: folders are never left alone, since chokidar asks for them with all below.
 * @param report gets each file that was left alone, a second later at the most.
 */
export function createHotFiles(isFile: (path: string) => boolean, report: (path: string) => void): HotFiles {
  let looks = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;

  function endWindow(): void {
    const seen = looks;
    looks = new Map();
    timer = undefined;
    for (const [path, count] of seen) if (count > LOOKS) report(path);
  }

  return {
    isHot(path) {
      let count = (looks.get(path) ?? 0) + 1;
      if (count === LOOKS + 1 && !isFile(path)) count = -Infinity;
      looks.set(path, count);
      timer ??= setTimeout(endWindow, WINDOW_MS).unref();
      return count > LOOKS;
    },
    close: () => clearTimeout(timer),
  };
}
