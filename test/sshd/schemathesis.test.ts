/**
 * schemathesis (PyPI) makes requests of openapi.json, right and wrong ones, alone and in sequences, and holds each answer
 * against it: no 5xx, no undocumented status, no body or header outside its schema. In a virtual environment of its own,
 * where Python and the registry are.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startBerth, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { cutOff } from '../support/demo.ts';
import { dataOf } from '../support/field-sets.ts';
import { rounds } from '../support/long.ts';
import { document } from '../support/openapi.ts';
import { until } from '../support/poll.ts';
import { pythonEnvironment } from '../support/python-environment.ts';
import { scratch } from '../support/scratch.ts';
import { SEED } from '../support/seed.ts';

const HERE = fileURLToPath(new URL('../foreign/schemathesis/', import.meta.url));
/** A new machine downloads first, in ms. */
const TIMEOUT = 600_000;
/** Requests for each operation, in the phase that makes them at random. */
const EXAMPLES = rounds(2, 6);

const run = promisify(execFile);

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAaDNrOq1pLOaZadnxTWp5XDLt/9ogLqCnXJNh2DulMM customer@example.com';

/** What the parameters in a path stand for in such a directory. */
const FOUND: Readonly<Record<string, (berth: TestBerth, directory: TestDirectory) => Promise<string | undefined>>> = {
  id: async (_, { id }) => id,
  upload_id: async (berth, directory) => (await berth.uploads(directory))[0]?.id,
  delivery_id: async ({ send }, { id }) =>
    dataOf<{ id: string }[]>(await send('GET', `/directories/${id}/deliveries`))[0]?.id,
  fingerprint: async ({ send }, { id }) =>
    dataOf<{ public_key_fingerprint: string }>(await send('GET', `/directories/${id}`)).public_key_fingerprint,
  file_id: async (berth, directory) => {
    await cutOff(berth, directory);
    const partial = await berth.send('GET', `/directories/${directory.id}/files?state=partial`);
    return dataOf<{ id: string }[]>(partial)[0]?.id;
  },
  path: async () => 'reports/2026-11.csv',
  link_id: async ({ send }, { id }) => dataOf<{ id: string }[]>(await send('GET', `/directories/${id}/links`))[0]?.id,
  key_id: async ({ send }) =>
    dataOf<{ id: string }>(await send('POST', '/api_keys', { json: { name: 'to be revoked', role: 'member' } })).id,
};

/** By a link, which costs a tenth of a login by SFTP. */
async function upload(berth: TestBerth, { id }: TestDirectory): Promise<void> {
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const json = { for: 'upload', path: 'report.csv', max_bytes: 100, expires_at };
  const { url } = dataOf<{ url: string }>(await berth.send('POST', `/directories/${id}/links`, { json }));
  const { pathname, search } = new URL(url.replace(/:0\//, '/'));
  const { status } = await berth.send('PUT', `/${pathname}${search}`, { body: 'a,b\n', authorization: null });
  assert.equal(status, 201);
}

/** For each operation a directory of its own, with a key, a file and its delivery, as schemathesis's settings have it. */
async function settingsFor(berth: TestBerth): Promise<string> {
  const sections: string[] = [];
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const { operationId } of Object.values(methods)) {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
      if (names.length === 0) continue;
      const directory = await berth.directory();
      await berth.send('PATCH', `/directories/${directory.id}`, {
        json: { directory: { auth_mode: 'both', public_key: KEY } },
      });
      await upload(berth, directory);
      await until('it is recorded', async () => (await berth.uploads(directory)).length > 0);
      const values = await Promise.all(
        names.map(async (name) => {
          const value = await FOUND[name]?.(berth, directory);
          assert.ok(value, `FOUND has no ${name} of ${path}`);
          return `${JSON.stringify(`path.${name}`)} = ${JSON.stringify(value)}`;
        }),
      );
      sections.push(`[[operations]]\ninclude-operation-id = "${operationId}"\nparameters = { ${values.join(', ')} }\n`);
    }
  }
  return sections.join('\n');
}

test('schemathesis finds nothing that openapi.json does not describe', { timeout: TIMEOUT }, async (t) => {
  const programs = await pythonEnvironment(join(HERE, 'requirements.txt')).catch((error: unknown) => {
    t.skip(`schemathesis: ${error instanceof Error ? error.message.slice(0, 200) : ''}`);
  });
  if (programs === undefined) return;
  using place = scratch();
  await using berth = await startBerth(place);
  const settings = join(place.dir, 'schemathesis.toml');
  await writeFile(settings, `[auth.openapi.apiKey]\nbearer = "${berth.key}"\n\n${await settingsFor(berth)}`);
  const api = `https://localhost:${berth.service().port}`;
  const options = {
    url: api,
    'tls-verify': berth.config.tls.cert,
    seed: String(SEED),
    'max-examples': String(EXAMPLES),
    'generation-database': 'none',
    'suppress-health-check': 'all',
    // A schema does not know which keys are sound, and which ids there are.
    'exclude-checks': 'positive_data_acceptance',
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const { stdout } = await run(
    join(programs, 'st'),
    [
      '--config-file',
      settings,
      'run',
      `${api}/api/v1/openapi.json`,
      '--no-color',
      '--continue-on-failure',
      '--no-shrink',
      ...args,
    ],
    { cwd: place.dir, maxBuffer: 2 ** 26, env: { ...process.env, SCHEMATHESIS_HOOKS: join(HERE, 'hooks.py') } },
  ).catch((error: { stdout?: string; stderr?: string }) => assert.fail(`${error.stdout} ${error.stderr}`));
  const summary = /(\d+) generated[^]*?in (\d+)\.\d+s/.exec(stdout);
  t.diagnostic(`schemathesis: ${summary?.[1]} cases in ${summary?.[2]} s`);
  assert.ok(Number(summary?.[1]) > 20 * Object.keys(document.paths).length, stdout);
});
