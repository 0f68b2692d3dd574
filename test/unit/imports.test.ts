/** Imports between folders: the arrows of src/README.md, held against the sources. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SRC = fileURLToPath(new URL('../../src/', import.meta.url));

/** The ground: may be imported by everyone and imports no feature. `db` builds on `base`. */
const GROUND = ['base', 'db'];

/** For each feature, what it may import beside itself and the ground: a folder, or single files of one. */
const ALLOWED: Record<string, readonly string[]> = {
  accounts: [],
  keys: ['accounts', 'history/audit.ts', 'history/stored-responses.ts'],
  checks: [
    'files',
    'accounts/actor.ts',
    'directories/target.ts',
    'history/audit.ts',
    'history/transfers.ts',
    'uploads',
    'webhooks/outbox.ts',
  ],
  doctor: [
    'accounts',
    'checks/checker.ts',
    'checks/exchange.ts',
    'directories/host.ts',
    'directories/public-key.ts',
    'nodes/list.ts',
    'sftp',
    'keys/api-keys.ts',
  ],
  backup: ['directories/create.ts', 'history/events.ts', 'sftp/paths.ts'],
  directories: ['accounts', 'history/audit.ts', 'history/stored-responses.ts', 'keys/last-used.ts'],
  files: [
    'accounts/actor.ts',
    'directories/storage-full.ts',
    'directories/target.ts',
    'history/audit.ts',
    'uploads',
    'webhooks/outbox.ts',
  ],
  history: ['accounts/actor.ts', 'accounts/scope.ts'],
  links: [
    'accounts',
    'directories',
    'history/audit.ts',
    'history/stored-responses.ts',
    'uploads/file-path.ts',
    'uploads/record/history.ts',
  ],
  metrics: ['nodes/list.ts'],
  nodes: [
    'files/directory-files.ts',
    'directories/homes.ts',
    'directories/host.ts',
    'directories/unapplied.ts',
    'history/audit.ts',
    'sftp/files.ts',
    'sftp/paths.ts',
    'uploads/draining.ts',
  ],
  reports: [
    'directories/access.ts',
    'files/partial.ts',
    'history/audit-in-words.ts',
    'history/audit-sentences.ts',
    'uploads/file-path.ts',
    'webhooks/further-events.ts',
    'webhooks/outbox.ts',
  ],
  sftp: ['directories/end-session.ts', 'directories/host.ts'],
  users: ['accounts', 'history/audit.ts', 'history/batches.ts', 'keys/authenticate.ts'],
  webhooks: [
    'accounts/actor.ts',
    'directories/target.ts',
    'history/audit.ts',
    'history/events.ts',
    'history/stored-responses.ts',
  ],
  uploads: [
    'accounts/actor.ts',
    'directories/host.ts',
    'directories/target.ts',
    'history/audit.ts',
    'history/stored-responses.ts',
    'history/transfers.ts',
    'webhooks/delivery-list.ts',
    'webhooks/further-events.ts',
    'webhooks/outbox.ts',
    'webhooks/receiver-of.ts',
  ],
  web: [
    'keys/authenticate.ts',
    'directories/fields.ts',
    'directories/view.ts',
    'files',
    'uploads/file-path.ts',
    'uploads/upload-list.ts',
  ],
  http: [
    'files',
    'web',
    'accounts',
    'checks/held.ts',
    'directories',
    'history/audit.ts',
    'history/events.ts',
    'history/stored-responses.ts',
    'links',
    'nodes/move/departure.ts',
    'uploads/announce.ts',
    'uploads/file-path.ts',
    'uploads/upload-list.ts',
    'webhooks',
    'keys',
  ],
  dashboard: [
    'files',
    'web',
    'accounts',
    'checks/held.ts',
    'directories',
    'history',
    'links/limit.ts',
    'links/links.ts',
    'reports/activity.ts',
    'reports/login-log.ts',
    'reports/login-rules.ts',
    'reports/sshd-log.ts',
    'sftp/public-host-keys.ts',
    'uploads/announce.ts',
    'uploads/file-changes.ts',
    'uploads/file-path.ts',
    'uploads/upload-list.ts',
    'users',
    'webhooks',
    'keys',
  ],
  listen: ['webhooks/signature.ts'],
  cli: [
    'files/partial.ts',
    'accounts',
    'backup',
    'checks/held.ts',
    'directories/json-text.ts',
    'doctor',
    'history/audit-in-words.ts',
    'history/erase.ts',
    'listen',
    'nodes',
    'service/prepare.ts',
    'reports',
    'service/serve.ts',
    'service/sshd-settings.ts',
    'sftp',
    'uploads/file-path.ts',
    'users',
    'webhooks/address-rule.ts',
    'webhooks/replay.ts',
    'keys/api-keys.ts',
  ],
};

/** What puts the parts together. */
const ROOTS = ['main.ts', 'service'];

/** Packages that one place alone may know. */
const PACKAGES: Record<string, readonly string[]> = {
  'better-sqlite3': ['db'],
  chokidar: ['uploads/disk/jail-watcher.ts'],
  got: ['webhooks'],
  hono: ['http', 'dashboard', 'web'],
  'openid-client': ['users/openid-provider.ts'],
  otpauth: ['users'],
  uqr: ['dashboard'],
  '@valibot/to-json-schema': ['http/openapi/json-schema.ts'],
  '@hono/node-server': ['http', 'web'],
  sshpk: ['directories/public-key.ts'],
  commander: ['cli'],
  pino: ['base/log.ts'],
  pg: ['db'],
  'pg-copy-streams': ['db'],
};

interface Import {
  readonly from: string;
  readonly to: string;
}

const files = globSync('**/*.{ts,tsx}', { cwd: SRC });

function importsOf(file: string): Import[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  const specifiers = text.matchAll(
    /^(?:import|export)\b[^;]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm,
  );
  return [...specifiers].map((match) => {
    const specifier = match[1] ?? match[2] ?? match[3] ?? '';
    return { from: file, to: specifier.startsWith('.') ? normalize(join(dirname(file), specifier)) : specifier };
  });
}

/** The features that a feature imports, beside itself. */
const featuresOf = (feature: string): string[] => [
  ...new Set((ALLOWED[feature] ?? []).map((place) => place.split('/')[0] ?? '').filter((name) => name in ALLOWED)),
];

test('no two features import each other, neither directly nor through others', () => {
  const circles: string[] = [];
  const walk = (feature: string, path: readonly string[]): void => {
    if (path.includes(feature)) circles.push([...path.slice(path.indexOf(feature)), feature].join(' → '));
    else for (const next of featuresOf(feature)) walk(next, [...path, feature]);
  };
  for (const feature of Object.keys(ALLOWED)) walk(feature, []);
  assert.deepEqual([...new Set(circles)], []);
});

const within = (file: string, places: readonly string[]): boolean =>
  places.some((place) => file === place || file.startsWith(`${place}/`));

test('every arrow between folders is one that the map allows', () => {
  const wrong = files
    .filter((file) => !within(file, ROOTS))
    .flatMap(importsOf)
    .filter(({ to }) => files.includes(to))
    .filter(({ from, to }) => {
      const feature = Object.keys(ALLOWED).find((name) => within(from, [name]));
      const allowed = feature === undefined ? GROUND : [feature, ...GROUND, ...(ALLOWED[feature] ?? [])];
      return !within(to, allowed);
    });
  assert.deepEqual(wrong, []);
});

test('base imports nothing but itself', () => {
  const wrong = files
    .filter((file) => within(file, ['base']))
    .flatMap(importsOf)
    .filter(({ to }) => files.includes(to) && !within(to, ['base']));
  assert.deepEqual(wrong, []);
});

test('the map has no arrow that nothing uses', () => {
  const unused = Object.entries(ALLOWED).flatMap(([feature, places]) => {
    const imported = files.filter((file) => within(file, [feature])).flatMap(importsOf);
    return places
      .filter((place) => !imported.some(({ to }) => within(to, [place])))
      .map((to) => ({ from: feature, to }));
  });
  assert.deepEqual(unused, []);
});

test('every file has its place on the map', () => {
  const strangers = files.filter((file) => !within(file, [...GROUND, ...ROOTS, ...Object.keys(ALLOWED)]));
  assert.deepEqual(strangers, []);
});

test('packages stay where they belong, and the environment is read in one place', () => {
  const wrong = files.flatMap(importsOf).filter(({ from, to }) => {
    const places = PACKAGES[to] ?? PACKAGES[to.split('/')[0] ?? ''];
    return places !== undefined && !within(from, places);
  });
  assert.deepEqual(wrong, []);
  const readers = files.filter((file) => /process\.env\b/.test(readFileSync(join(SRC, file), 'utf8')));
  assert.deepEqual(readers, ['main.ts']);
});
