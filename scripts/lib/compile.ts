/**
 * compile.ts FOLDER: compiles src/ of FOLDER into its program/, file by file, with source maps that lead to src/. The tree of folders
 * stays the same, so paths relative to a file (a worker thread, openssh/) work as in a checkout.
 */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: compile.ts FOLDER');
const src = join(folder, 'src');

/** esbuild resolves imports only when it bundles. So it bundles, and this keeps each import, as that of a .js file. */
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
