/** The environment of a Node process that a test starts: nothing of the test's own but what lets the process start sooner. */

/** Names the folder of the run's bundle (bundled-sources.ts), if it has one. */
export const BUNDLE = 'TEST_BUNDLE';

/** The module that loads it. */
export function bundleUrl(): string | undefined {
  const folder = process.env[BUNDLE];
  return folder && new URL(`use-bundled-sources.mjs?folder=${folder}`, import.meta.url).href;
}

/** Options that make a process use it. */
export function useBundle(): string[] {
  const url = bundleUrl();
  return url === undefined ? [] : [`--import=${url}`];
}

const cache = process.env['NODE_COMPILE_CACHE'];

export const nodeEnvironment: Readonly<Record<string, string>> = {
  PATH: process.env['PATH'] ?? '',
  NODE_OPTIONS: useBundle().join(' '),
  // Where V8 keeps what it makes of the sources (each-file-apart.cjs).
  ...(cache !== undefined && { NODE_COMPILE_CACHE: cache }),
};
