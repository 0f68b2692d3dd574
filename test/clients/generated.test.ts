/**
 * Clients that others generate from openapi.json compile and work: by openapi-python-client (PyPI) and oapi-codegen (a Go
 * module), each built where its toolchain and registry are. openapi-typescript makes the types of `berth-client`.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startBerth } from '../support/berth.ts';
import { document } from '../support/openapi.ts';
import { pythonEnvironment } from '../support/python-environment.ts';
import { scratch, type Scratch } from '../support/scratch.ts';

const HERE = fileURLToPath(new URL('../foreign/generators/', import.meta.url));
/** A new machine downloads and compiles, in ms. */
const TIMEOUT = 600_000;

const run = promisify(execFile);

/** Runs a step that needs a toolchain and a registry. If one is missing, skips the test and returns undefined. */
async function reached<T>(t: TestContext, name: string, step: () => Promise<T>): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    t.skip(`${name}: ${error instanceof Error ? error.message.slice(0, 200) : ''}`);
    return undefined;
  }
}

async function written(place: Scratch): Promise<string> {
  const file = join(place.dir, 'openapi.json');
  await writeFile(file, JSON.stringify(document));
  return file;
}

/** Runs the program against an API, and checks its output. */
async function works(place: Scratch, [program, ...args]: readonly [string, ...string[]], cwd: string): Promise<void> {
  await using berth = await startBerth(place);
  const api = `https://127.0.0.1:${berth.service().port}`;
  const env = { ...process.env, API: api, KEY: berth.key, CA: berth.config.tls.cert };
  const { stdout } = await run(program, args, { cwd, env });
  assert.equal(stdout, 'out/x changed 0\n');
}

test('openapi-python-client', { timeout: TIMEOUT }, async (t) => {
  const requirements = join(HERE, 'requirements.txt');
  const programs = await reached(t, 'openapi-python-client', () => pythonEnvironment(requirements));
  if (programs === undefined) return;
  using place = scratch();
  const client = join(place.dir, 'client');
  const env = { ...process.env, PATH: `${programs}:${process.env['PATH']}` };
  const args = ['generate', '--path', await written(place), '--output-path', client, '--fail-on-warning'];
  await run(join(programs, 'openapi-python-client'), args, { env });
  const python = join(programs, 'python');
  await run(python, ['-m', 'compileall', '-q', client]);
  await copyFile(join(HERE, 'main.py'), join(client, 'main.py'));
  await works(place, [python, 'main.py'], client);
});

test('oapi-codegen', { timeout: TIMEOUT }, async (t) => {
  using place = scratch();
  const folder = join(place.dir, 'client');
  await cp(HERE, folder, { recursive: true });
  const go = (...args: string[]) => run('go', args, { cwd: folder, maxBuffer: 2 ** 26 });
  if ((await reached(t, 'go', () => go('mod', 'download'))) === undefined) return;
  const { stdout } = await go(
    'tool',
    'oapi-codegen',
    '-generate',
    'types,client',
    '-package',
    'main',
    await written(place),
  );
  await writeFile(join(folder, 'api.go'), stdout);
  await go('vet', '.');
  const program = join(place.dir, 'program');
  await go('build', '-o', program, '.');
  await works(place, [program], folder);
});
