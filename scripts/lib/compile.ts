/**
 * compile.ts FOLDER: makes JavaScript of its src/ in its program/, file by file, with source maps that lead to src/. The
 * folders stay as they are, so what a file names by its own place (a worker thread, openssh/) is found as in a checkout.
 */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: compile.ts FOLDER');
const src = join(folder, 'src');

/** esbuild looks at imports only when it bundles: so it does, and each import stays one, of a .js file. */
const keepImports: Plugin = {
  name: 'keep-imports',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.?\// }, ({ path }) => ({ path: path.replace(/\.tsx?$/, '.js'), external: true }));
  },
};

await build({
  entryPoints: globSync('**/*.{ts,tsx}', { cwd: src }).map((file) => join(src, file)),
  outbase: src,
  outdir: join(folder, 'program'),
  bundle: true,
  packages: 'external',
  plugins: [keepImports],
  platform: 'node',
  format: 'esm',
  jsx: 'automatic',
  jsxImportSource: 'hono/jsx',
  target: 'node24',
  sourcemap: true,
  sourcesContent: false,
});
