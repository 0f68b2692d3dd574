/**
 * kysely as one file. Its 250 modules take a process longer to load than berth's own, and the tests start a thousand processes.
 * `test/run.ts` makes the bundle; a process uses it with the option in `node-environment.ts`.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const FOLDER = fileURLToPath(new URL('../../node_modules/.cache/kysely/', import.meta.url));

export async function bundleKysely(): Promise<void> {
  const { outputFiles } = await build({
    entryPoints: { kysely: 'kysely', migration: 'kysely/migration' },
    outdir: FOLDER,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    // Both export the same object, as in the package.
    splitting: true,
    format: 'esm',
    platform: 'node',
    write: false,
  });
  mkdirSync(FOLDER, { recursive: true });
  for (const { path, contents } of outputFiles) {
    // Another run may be reading it.
    const beside = join(FOLDER, `.${process.pid}-${basename(path)}`);
    writeFileSync(beside, contents);
    renameSync(beside, path);
  }
}
