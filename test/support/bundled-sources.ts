/**
 * `src/`, the tests' own helpers and the packages of both as one script, with what V8 has compiled of it. Loading 700 modules takes a
 * process longer than most tests take, and the tests start a thousand processes. `test/run.ts` makes the bundle; a process uses it
 * with the option in `node-environment.ts`. A module is evaluated when it is first imported, as without a bundle.
 */
import { execFile } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import { extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify, types } from 'node:util';
import { build, type Plugin, stop } from 'esbuild';
import { BUNDLE, useBundle } from './node-environment.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const WARM_UP = 'test/support/warm-up.ts';
/** They await at their top level. */
const PROGRAMS = new Set(['src/main.ts', WARM_UP]);
const FILE_APART = join(PROJECT, 'test/support/file-apart');
const require = createRequire(import.meta.url);
/** Packages that are native, have files or threads of their own, or are large and rarely used. */
const OUTSIDE = ['better-sqlite3', 'pg', 'pino', 'ssh2', 'esbuild', 'playwright-core', 'oidc-provider'];
/** Tests replace functions of these (`faults/dying.ts`) after the first import. */
const REPLACED = /^node:fs(\/promises)?$/;
/** Packages that tests import: they get the same objects as `src/`. */
const SHARED = [
  'kysely',
  'kysely/migration',
  'hono',
  'p-queue',
  'commander',
  'valibot',
  'otpauth',
  'unixcrypt',
  'ajv/dist/2020.js',
  'ajv-formats',
  'fast-check',
];

/** Makes it in a folder, for the processes that this one starts. */
export async function bundleSources(folder: string): Promise<void> {
  const sources = globSync('{src,test/support}/**/*.{ts,tsx}', { cwd: PROJECT }).filter((file) => !PROGRAMS.has(file));
  const common = {
    absWorkingDir: PROJECT,
    platform: 'node',
    target: 'node24',
    jsx: 'automatic',
    jsxImportSource: 'hono/jsx',
    logLevel: 'error',
    write: false,
  } as const;
  const modules = [...sources.map((source) => `./${source}`), ...SHARED];
  const from = (name: string): string => (name.startsWith('./') ? name : `shared:${name}`);
  const entries = modules.map((name) => `'${name}': () => require('${from(name)}')`);
  const [{ metafile }, { outputFiles }] = await Promise.all([
    build({ ...common, entryPoints: sources, outbase: '.', outdir: '.', format: 'esm', metafile: true }),
    build({
      ...common,
      stdin: { contents: `module.exports = {${entries.join(',\n')}};`, resolveDir: PROJECT },
      outfile: join(folder, 'bundle.js'),
      bundle: true,
      format: 'cjs',
      sourcemap: 'external',
      plugins: [ownUrls, shared, loadedLate],
    }),
  ]);
  await stop();
  const exportsOf = new Map<string, string[]>();
  for (const { entryPoint, exports } of Object.values(metafile.outputs)) {
    if (entryPoint !== undefined) exportsOf.set(`./${entryPoint}`, exports);
  }
  for (const name of SHARED) exportsOf.set(name, Object.keys((await import(name)) as object));
  mkdirSync(folder);
  for (const { path, text } of outputFiles) {
    const isScript = path.endsWith('.js');
    // What is not ASCII is in comments. A string of one byte for each character is read fastest.
    const script = (): string =>
      `(function (require, module, outside, resolve) {${text.replaceAll(/[^\n\t -~]/g, '?')}\n})`;
    writeFileSync(path, isScript ? script() : text);
  }
  writeFileSync(join(folder, 'exports.json'), JSON.stringify(Object.fromEntries(exportsOf)));
  process.env[BUNDLE] = folder;
  // Without it the tests pass, too, so what is wrong with berth is for them to say.
  await promisify(execFile)(FILE_APART, [...useBundle(), join(PROJECT, WARM_UP)]).catch((error: unknown) => {
    process.stderr.write(`test/support/warm-up.ts failed, and each process compiles for itself: ${String(error)}\n`);
  });
}

/** In a bundle, a module would be where the bundle is. */
const ownUrls: Plugin = {
  name: 'own-urls',
  setup({ onLoad }) {
    onLoad({ filter: /\.tsx?$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8')
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
        .replaceAll('import.meta.resolve(', 'resolve('),
      loader: extname(path) === '.tsx' ? 'tsx' : 'ts',
    }));
  },
};

/** A package as `import` finds it: some have another file for `require`. */
const shared: Plugin = {
  name: 'shared',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^shared:/ }, ({ path }) => ({ path: path.slice('shared:'.length), namespace: 'shared' }));
    onLoad({ filter: /.*/, namespace: 'shared' }, ({ path }) => {
      const name = JSON.stringify(path);
      return {
        contents: `export * from ${name}; import * as all from ${name}; export default all.default;`,
        resolveDir: PROJECT,
      };
    });
  },
};

/** Node's modules and the packages outside, loaded by their first importer. Of their exports only those that are imported: some load more of Node. */
const loadedLate: Plugin = {
  name: 'loaded-late',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^.]/ }, ({ path }) =>
      isBuiltin(path) || OUTSIDE.includes(path) ? { path, namespace: 'late' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'late' }, ({ path }) => {
      const found = require(path) as Record<string, unknown>;
      const names = Object.keys(found).filter((name) => /^[a-zA-Z_$][\w$]*$/.test(name) && name !== 'default');
      const isReplaced = (name: string): boolean =>
        REPLACED.test(path) &&
        typeof found[name] === 'function' &&
        (path.endsWith('promises') || name.endsWith('Sync'));
      const valueOf = (name: string): string =>
        isReplaced(name) ? `(...values) => found.${name}(...values)` : `/* @__PURE__ */ of('${name}')`;
      return {
        contents: `
          const found = outside(${JSON.stringify(path)});
          export default ${types.isModuleNamespaceObject(found) ? 'found.default' : 'found'};
          const of = (name) => found[name];
          ${names.map((name, index) => `const _${index} = ${valueOf(name)};`).join('\n')}
          export { ${names.map((name, index) => `_${index} as ${name}`).join(', ')} };`,
      };
    });
  },
};
