/** The environment of a Node process that a test starts: nothing of the test's own but what lets the process start sooner. */

/** Makes a process use packages as one file each (bundled-packages.ts). */
export const BUNDLED_PACKAGES = `--import=${new URL('use-bundled-packages.mjs', import.meta.url).href}`;

const cache = process.env['NODE_COMPILE_CACHE'];

export const nodeEnvironment: Readonly<Record<string, string>> = {
  PATH: process.env['PATH'] ?? '',
  NODE_OPTIONS: BUNDLED_PACKAGES,
  // Where V8 keeps what it makes of the sources (each-file-apart.cjs).
  ...(cache !== undefined && { NODE_COMPILE_CACHE: cache }),
};
