/**
 * Packages of many modules as one file each, with what they share in files of its own. Their 450 modules take a process longer to load
 * than berth's own, and the tests start a thousand processes. `test/run.ts` makes the bundle; a process uses it with the option in
 * `node-environment.ts`.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';

const FOLDER = fileURLToPath(new URL('../../node_modules/.cache/packages/', import.meta.url));

const PACKAGES = [
  '@fastify/busboy',
  '@hono/node-server',
  '@sindresorhus/slugify',
  'ajv-formats',
  'ajv/dist/2020.js',
  'chokidar',
  'commander',
  'got',
  'hono',
  'hono/body-limit',
  'hono/cookie',
  'hono/csrf',
  'hono/html',
  'hono/http-exception',
  'hono/jsx',
  'hono/jsx-renderer',
  'hono/jsx/jsx-runtime',
  'hono/route',
  'hono/secure-headers',
  'hono/streaming',
  'kysely',
  'kysely/migration',
  'openid-client',
  'p-queue',
  'pino',
  'ssh2',
  'sshpk',
];

/** What the bundle's CommonJS modules expect to be there. */
const COMMON_JS = `import { createRequire as __createRequire } from 'node:module';
import { dirname as __dirnameOf } from 'node:path';
import { fileURLToPath as __pathOf } from 'node:url';
const require = __createRequire(import.meta.url), __filename = __pathOf(import.meta.url), __dirname = __dirnameOf(__filename);`;

/** Exports what Node finds in each package: the names in a CommonJS module, too. */
const asNodeExports: Plugin = {
  name: 'as-node-exports',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^bundled:/ }, ({ path }) => ({ path: path.slice('bundled:'.length), namespace: 'bundled' }));
    onLoad({ filter: /.*/, namespace: 'bundled' }, async ({ path }) => {
      const names = Object.keys((await import(path)) as object).filter((name) => /^[\w$]+$/.test(name));
      const contents = `export { ${names.join(', ')} } from '${path}';`;
      return { contents, resolveDir: FOLDER };
    });
    // What a package has compiled for this machine stays where it is.
    onResolve({ filter: /\.node$/ }, ({ path, resolveDir }) => ({ path: join(resolveDir, path), external: true }));
  },
};

export async function bundlePackages(): Promise<void> {
  const names = Object.fromEntries(PACKAGES.map((name) => [name, name.replaceAll('/', '+').replace(/\.js$/, '')]));
  mkdirSync(FOLDER, { recursive: true });
  const { outputFiles } = await build({
    entryPoints: Object.fromEntries(Object.entries(names).map(([specifier, name]) => [name, `bundled:${specifier}`])),
    outdir: FOLDER,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    plugins: [asNodeExports],
    // Packages share their own: two of hono export the same object.
    splitting: true,
    banner: { js: COMMON_JS },
    format: 'esm',
    platform: 'node',
    logLevel: 'error',
    write: false,
  });
  const index = { path: 'index.json', contents: JSON.stringify(names) };
  for (const { path, contents } of [...outputFiles, index]) {
    // Another run may be reading it.
    const beside = join(FOLDER, `.${process.pid}-${basename(path)}`);
    writeFileSync(beside, contents);
    renameSync(beside, join(FOLDER, basename(path)));
  }
}
