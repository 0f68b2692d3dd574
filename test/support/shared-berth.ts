/** One berth for the tests of a file, which start in a tenth of the time. Each has a webhook receiver of its own. */
import { after } from 'node:test';
import { startBerth, type TestBerth } from './berth.ts';
import { receiver } from './receiver.ts';
import { scratch } from './scratch.ts';

/**
 * Starts it at the first call and ends it after the file's last test. The directories that a test makes have that test's receiver.
 * A test that stops berth, or looks at what all directories have in common, needs `startBerth`.
 */
export function sharedBerth(): () => Promise<TestBerth> {
  const parts = new AsyncDisposableStack();
  let started: Promise<TestBerth> | undefined;
  after(() => parts.disposeAsync());
  const start = async (): Promise<TestBerth> => parts.use(await startBerth(parts.use(scratch())));
  return async () => {
    started ??= start();
    const berth = await started;
    const hook = await receiver({ eachOnce: true });
    return {
      ...berth,
      receiver: hook,
      directory: (fields) => berth.directory(fields, hook.url),
      [Symbol.asyncDispose]: () => hook[Symbol.asyncDispose](),
    };
  };
}
