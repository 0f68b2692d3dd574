/** Asks the kernel whether the opens of a file's doubted handles were refused. */
import type { TrackedFile } from './operations.ts';
import type { Story } from './story.ts';

/**
 * When to ask again, in ms after the last time: a descriptor may be open a moment longer than its close is logged.
 */
const AGAIN_MS = [0, 2, 10, 50, 200, 700];

export interface Question {
  readonly story: Story;
  readonly file: TrackedFile;
  /** That of `Story.askAbout`. */
  readonly isLast: boolean;
  isDoubted(): boolean;
  wait(ms: number): Promise<unknown>;
  /** Resolves once every line that was logged before the call has been interpreted. */
  interpreted(): Promise<unknown>;
}

/** Asks until the answer is known, for a second. */
export async function askAboutOpens({ story, file, isLast, isDoubted, wait, interpreted }: Question): Promise<void> {
  for (const ms of AGAIN_MS) {
    if (ms > 0) await wait(ms);
    const complete = story.askAbout(file, isLast);
    await interpreted();
    complete();
    if (!isDoubted()) return;
  }
}
