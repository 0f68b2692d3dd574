/** Imports between folders: those that src/README.md and the table below allow, compared with the sources. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SRC = fileURLToPath(new URL('../../src/', import.meta.url));

/** The layers of `src/`, from the bottom: each imports only itself and those before it. */
const LAYERS = [
  'foundation',
  'rules',
  'machine',
  'deliveries',
  'arrivals',
  'operating',
  'interfaces',
  'service',
  'cli',
];

/** The ground: may be imported by everyone and imports no feature. `db` builds on `base`. */
const GROUND = ['foundation/base', 'foundation/db', 'foundation/context.ts'];

/** For each feature, what it may import beside itself and the ground: a folder, or single files of one. */
const ALLOWED: Record<string, readonly string[]> = {
  'rules/accounts': [],
  'rules/api-keys': ['rules/accounts', 'rules/history/audit.ts'],
  'arrivals/checks': [
    'arrivals/files',
    'rules/accounts/actor.ts',
    'rules/directories/storage-full.ts',
    'rules/directories/target.ts',
    'rules/history/audit.ts',
    'rules/history/transfers.ts',
    'arrivals/uploads',
    'deliveries/webhooks/outbox.ts',
  ],
  'operating/doctor': [
    'rules/accounts',
    'arrivals/checks/checker.ts',
    'arrivals/checks/exchange.ts',
    'rules/directories/host.ts',
    'rules/directories/public-key.ts',
    'operating/nodes/list.ts',
    'machine/sftp',
    'rules/api-keys/api-keys.ts',
  ],
  'operating/backup': ['rules/directories/create.ts', 'rules/history/events.ts', 'machine/sftp/paths.ts'],
  'rules/directories': ['rules/accounts', 'rules/history/audit.ts', 'rules/api-keys/last-used.ts'],
  'arrivals/files': [
    'rules/accounts/actor.ts',
    'rules/directories/storage-full.ts',
    'rules/directories/target.ts',
    'rules/history/audit.ts',
    'arrivals/uploads',
    'deliveries/webhooks/outbox.ts',
  ],
  'rules/history': ['rules/accounts/actor.ts'],
  'arrivals/links': [
    'rules/directories',
    'rules/history/audit.ts',
    'arrivals/uploads/file-path.ts',
    'arrivals/uploads/record/transfer-history.ts',
  ],
  'operating/metrics': ['operating/nodes/list.ts'],
  'operating/nodes': [
    'arrivals/files/directory-files.ts',
    'rules/accounts/actor.ts',
    'rules/directories/host.ts',
    'rules/directories/host.ts',
    'rules/directories/pending-apply.ts',
    'rules/history/audit.ts',
    'machine/sftp/files.ts',
    'machine/sftp/paths.ts',
    'arrivals/uploads/draining.ts',
  ],
  'operating/reports': [
    'rules/directories/networks.ts',
    'rules/directories/view.ts',
    'rules/history/daily-totals.ts',
    'arrivals/checks/held.ts',
    'arrivals/files/partial.ts',
    'rules/history/refusals.ts',
    'rules/history/sentences.ts',
    'arrivals/uploads/file-path.ts',
    'deliveries/webhooks/further-events.ts',
    'deliveries/webhooks/outbox.ts',
  ],
  'machine/sftp': [
    'rules/directories/end-session.ts',
    'rules/directories/host.ts',
    'rules/directories/public-keys.ts',
    'rules/history/transfers.ts',
    'rules/api-keys/last-used.ts',
  ],
  'rules/users': [
    'rules/accounts',
    'rules/history/audit.ts',
    'rules/history/removal.ts',
    'rules/api-keys/authenticate.ts',
  ],
  'deliveries/webhooks': ['rules/directories/target.ts', 'rules/history/audit.ts', 'rules/history/events.ts'],
  'arrivals/uploads': [
    'rules/directories/host.ts',
    'rules/directories/target.ts',
    'rules/history/audit.ts',
    'rules/history/refusals.ts',
    'rules/history/transfers.ts',
    'deliveries/webhooks/delivery-list.ts',
    'deliveries/webhooks/further-events.ts',
    'deliveries/webhooks/outbox.ts',
    'deliveries/webhooks/receiver-of.ts',
  ],
  'interfaces/web': [
    'arrivals/checks/held.ts',
    'arrivals/uploads/file-changes.ts',
    'deliveries/webhooks/send.ts',
    'machine/sftp/public-host-keys.ts',
    'operating/nodes/move/departure.ts',
    'operating/reports/login-log.ts',
    'rules/directories/end-session.ts',
    'rules/directories/target.ts',
    'rules/api-keys/api-keys.ts',
    'rules/api-keys/last-used.ts',
    'rules/users/passwords.ts',
    'rules/api-keys/authenticate.ts',
    'rules/directories/fields.ts',
    'rules/directories/view.ts',
    'arrivals/files',
    'arrivals/uploads/file-path.ts',
    'arrivals/uploads/upload-list.ts',
  ],
  'interfaces/http': [
    'arrivals/files',
    'interfaces/web',
    'rules/accounts',
    'rules/directories',
    'rules/history/events.ts',
    'rules/history/stored-responses.ts',
    'arrivals/links',
    'operating/nodes/move/departure.ts',
    'arrivals/uploads/announce.ts',
    'arrivals/uploads/file-path.ts',
    'arrivals/uploads/upload-list.ts',
    'deliveries/webhooks',
    'rules/api-keys',
  ],
  'interfaces/dashboard': [
    'arrivals/files',
    'interfaces/web',
    'rules/accounts',
    'arrivals/checks/held.ts',
    'rules/directories',
    'rules/history',
    'arrivals/links',
    'operating/reports/activity.ts',
    'operating/reports/failed-logins.ts',
    'operating/reports/login-rules.ts',
    'operating/reports/named.ts',
    'machine/sftp/public-host-keys.ts',
    'arrivals/uploads/announce.ts',
    'arrivals/uploads/file-path.ts',
    'arrivals/uploads/upload-list.ts',
    'rules/users',
    'deliveries/webhooks',
    'rules/api-keys',
  ],
  'interfaces/listen': ['deliveries/webhooks/signature.ts'],
  cli: [
    'arrivals/files/partial.ts',
    'rules/accounts',
    'operating/backup',
    'arrivals/checks/held.ts',
    'rules/directories/json-text.ts',
    'operating/doctor',
    'rules/history/refusals.ts',
    'rules/history/sentences.ts',
    'rules/history/removal.ts',
    'interfaces/listen',
    'operating/nodes',
    'service/prepare.ts',
    'operating/reports',
    'service/serve.ts',
    'service/prepare.ts',
    'machine/sftp',
    'arrivals/uploads/file-path.ts',
    'rules/users',
    'deliveries/webhooks/address-rule.ts',
    'deliveries/webhooks/delivery-list.ts',
    'rules/directories/view.ts',
    'deliveries/webhooks/replay.ts',
    'rules/api-keys/api-keys.ts',
  ],
};

/** What puts the parts together. */
const ROOTS = ['main.ts', 'service'];

/** Packages that one place alone may know. */
const PACKAGES: Record<string, readonly string[]> = {
  'better-sqlite3': ['foundation/db'],
  chokidar: ['arrivals/uploads/disk/jail-watcher.ts'],
  got: ['deliveries/webhooks'],
  hono: ['interfaces/http', 'interfaces/dashboard', 'interfaces/web'],
  'openid-client': ['rules/users/company-login.ts'],
  otpauth: ['rules/users'],
  uqr: ['interfaces/dashboard'],
  '@valibot/to-json-schema': ['interfaces/http/openapi/json-schema.ts'],
  '@hono/node-server': ['interfaces/http', 'interfaces/web'],
  sshpk: ['rules/directories/public-key.ts'],
  commander: ['cli'],
  pino: ['foundation/base/log.ts'],
  pg: ['foundation/db'],
  'pg-copy-streams': ['foundation/db'],
};

interface Import {
  readonly from: string;
  readonly to: string;
}

const files = globSync('**/*.{ts,tsx}', { cwd: SRC });

/** @param isCode leaves out imports of types alone. */
function importsOf(file: string, { isCode = false } = {}): Import[] {
  const all = readFileSync(join(SRC, file), 'utf8');
  const text = isCode ? all.replaceAll(/^(?:import|export) type\b[^;]*;/gm, '') : all;
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
  ...new Set(
    (ALLOWED[feature] ?? []).map((place) => place.split('/').slice(0, 2).join('/')).filter((name) => name in ALLOWED),
  ),
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

test('imports between layers only go down', () => {
  const level = (file: string): number => LAYERS.indexOf(file.split('/')[0] ?? '');
  const inside = files.filter((file) => file !== 'main.ts');
  assert.deepEqual(
    inside.filter((file) => level(file) === -1),
    [],
  );
  const up = inside
    .flatMap((file) => importsOf(file))
    .filter(({ to }) => files.includes(to))
    .filter(({ from, to }) => level(to) > level(from));
  assert.deepEqual(up, []);
});

test('no two files import each other', () => {
  const imports = new Set(files.flatMap((file) => importsOf(file)).map(({ from, to }) => `${from} → ${to}`));
  const mutual = files
    .flatMap((file) => importsOf(file))
    .filter(({ from, to }) => from < to && imports.has(`${to} → ${from}`))
    // Sessions and what looks alike are being rebuilt.
    .filter(({ from }) => from !== 'arrivals/uploads/story/alike.ts');
  assert.deepEqual(mutual, []);
});

test('every arrow between folders is one that the map allows', () => {
  const wrong = files
    .filter((file) => !within(file, ROOTS))
    .flatMap((file) => importsOf(file))
    .filter(({ to }) => files.includes(to))
    .filter(({ from, to }) => {
      const feature = Object.keys(ALLOWED).find((name) => within(from, [name]));
      const allowed = feature === undefined ? GROUND : [feature, ...GROUND, ...(ALLOWED[feature] ?? [])];
      return !within(to, allowed);
    });
  assert.deepEqual(wrong, []);
});

/** What makes a part of berth of everything that it uses. */
const COMPOSED = [
  'arrivals/checks/start.ts',
  'arrivals/uploads/start.ts',
  'deliveries/webhooks/start.ts',
  'interfaces/dashboard/app.tsx',
  'interfaces/http/app.ts',
  'machine/sftp/start.ts',
  'operating/metrics/start.ts',
  'operating/nodes/start.ts',
];

test('only the service composes parts: others know their types, and not their code', () => {
  const featureOf = (file: string): string | undefined => Object.keys(ALLOWED).find((name) => within(file, [name]));
  assert.deepEqual(
    COMPOSED.filter((file) => !files.includes(file)),
    [],
  );
  const wrong = files
    .filter((file) => !within(file, ROOTS))
    .flatMap((file) => importsOf(file, { isCode: true }))
    .filter(({ from, to }) => COMPOSED.includes(to) && featureOf(from) !== featureOf(to));
  assert.deepEqual(wrong, []);
});

test('base imports nothing but itself', () => {
  const wrong = files
    .filter((file) => within(file, ['foundation/base']))
    .flatMap((file) => importsOf(file))
    .filter(({ to }) => files.includes(to) && !within(to, ['foundation/base']));
  assert.deepEqual(wrong, []);
});

test('the map has no arrow that nothing uses', () => {
  const unused = Object.entries(ALLOWED).flatMap(([feature, places]) => {
    const imported = files.filter((file) => within(file, [feature])).flatMap((file) => importsOf(file));
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
  const wrong = files
    .flatMap((file) => importsOf(file))
    .filter(({ from, to }) => {
      const places = PACKAGES[to] ?? PACKAGES[to.split('/')[0] ?? ''];
      return places !== undefined && !within(from, places);
    });
  assert.deepEqual(wrong, []);
  const readers = files.filter((file) => /process\.env\b/.test(readFileSync(join(SRC, file), 'utf8')));
  assert.deepEqual(readers, ['main.ts']);
});
