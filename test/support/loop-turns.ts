/** How long this thread's event loop is held. */

/**
 * The longest turn of the event loop while `work` runs, in ms of this thread's processor time. The wall clock would measure the
 * machine's other processes as well.
 */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let before = process.threadCpuUsage();
  let next: NodeJS.Immediate;
  function turn(): void {
    const { user, system } = process.threadCpuUsage(before);
    longest = Math.max(longest, (user + system) / 1000);
    before = process.threadCpuUsage();
    next = setImmediate(turn);
  }
  next = setImmediate(turn);
  try {
    await work();
  } finally {
    clearImmediate(next);
  }
  return longest;
}
