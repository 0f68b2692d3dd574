/** The npm package `berth-client` as it is published: built, in a folder of its own. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { scratch } from '../support/scratch.ts';

/** Its source. */
export const CLIENT = fileURLToPath(new URL('../../clients/typescript', import.meta.url));
const MODULES = join(CLIENT, 'node_modules');

/** Its folder, built once for the tests of a file. Files in it import the package by its name, as an application does. */
export function sharedClientPackage(): () => string {
  const parts = new DisposableStack();
  let folder: string | undefined;
  after(() => parts.dispose());
  return () => (folder ??= build(parts.use(scratch()).dir));
}

function build(place: string): string {
  if (!existsSync(MODULES)) throw new Error(`first, npm ci in ${CLIENT} (scripts/test --all does it)`);
  const folder = join(place, 'berth-client');
  cpSync(CLIENT, folder, { recursive: true, filter: (path) => path !== MODULES });
  symlinkSync(MODULES, join(folder, 'node_modules'));
  for (const project of ['.', 'examples']) {
    execFileSync(process.execPath, [join(MODULES, 'typescript/bin/tsc'), '--project', project], { cwd: folder });
  }
  return folder;
}
