/**
 * compile.ts FOLDER: makes JavaScript of src/ there, file by file, with source maps. Its folders stay as they are, so
 * what a file names by its own place (a worker thread, openssh/) is found as in a checkout.
 */
import { globSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';

const [outdir] = process.argv.slice(2);
if (outdir === undefined) throw new Error('usage: compile.ts FOLDER');
const src = fileURLToPath(new URL('../../src/', import.meta.url));

/** esbuild looks at imports only when it bundles: so it does, and each import stays one, of a .js file. */
const keepImports: Plugin = {
  name: 'keep-imports',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.?\// }, ({ path }) => ({ path: path.replace(/\.ts$/, '.js'), external: true }));
  },
};

await build({
  entryPoints: globSync('**/*.ts', { cwd: src }).map((file) => src + file),
  outbase: src,
  outdir,
  bundle: true,
  packages: 'external',
  plugins: [keepImports],
  platform: 'node',
  format: 'esm',
  target: 'node24',
  sourcemap: true,
  sourcesContent: false,
});
