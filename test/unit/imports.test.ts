/** Who may import whom: the arrows of src/README.md, held against the sources. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SRC = fileURLToPath(new URL('../../src/', import.meta.url));

/** The ground: may be imported by everyone and imports no feature. */
const GROUND = [
  'background.ts',
  'beneath.ts',
  'boot.ts',
  'clock.ts',
  'clock-lead.ts',
  'clock-steps.ts',
  'config.ts',
  'db',
  'errors.ts',
  'event-loop.ts',
  'journal.ts',
  'last-backup.ts',
  'last-used.ts',
  'log.ts',
  'operator-socket.ts',
  'random-text.ts',
  'sync.ts',
  'terminal.ts',
  'validation.ts',
  'version.ts',
];

/** For each feature, what it may import beside itself and the ground: a folder, or single files of one. */
const ALLOWED: Record<string, readonly string[]> = {
  accounts: ['history/audit.ts', 'history/kept-answers.ts'],
  checks: [
    'accounts/asker.ts',
    'directories/target.ts',
    'history/audit.ts',
    'history/transfers.ts',
    'uploads',
    'webhooks/dispatcher.ts',
    'webhooks/outbox.ts',
  ],
  doctor: [
    'accounts',
    'checks/checker.ts',
    'directories/host.ts',
    'directories/public-key.ts',
    'nodes/list.ts',
    'sftp',
  ],
  backup: ['directories/create.ts', 'history/events.ts', 'sftp/paths.ts'],
  directories: ['accounts', 'history/audit.ts', 'history/kept-answers.ts'],
  history: ['accounts/asker.ts', 'accounts/scope.ts'],
  links: [
    'accounts',
    'directories',
    'history/audit.ts',
    'history/kept-answers.ts',
    'uploads/file-path.ts',
    'uploads/record/history.ts',
  ],
  metrics: ['nodes/list.ts'],
  nodes: [
    'directories/homes.ts',
    'directories/host.ts',
    'directories/unapplied.ts',
    'history/audit.ts',
    'sftp/files.ts',
    'sftp/paths.ts',
    'uploads/directory-files.ts',
    'uploads/settling.ts',
  ],
  reports: [
    'history/audit-in-words.ts',
    'history/audit-sentences.ts',
    'uploads/file-path.ts',
    'uploads/partial.ts',
    'webhooks/further-events.ts',
    'webhooks/outbox.ts',
  ],
  sftp: ['directories/end-session.ts', 'directories/host.ts'],
  users: ['accounts', 'history/audit.ts', 'history/batches.ts'],
  webhooks: [
    'accounts/asker.ts',
    'directories/target.ts',
    'history/audit.ts',
    'history/events.ts',
    'history/kept-answers.ts',
  ],
  uploads: [
    'accounts/asker.ts',
    'directories/host.ts',
    'directories/storage-full.ts',
    'directories/target.ts',
    'history/audit.ts',
    'history/kept-answers.ts',
    'history/transfers.ts',
    'webhooks/delivery-list.ts',
    'webhooks/dispatcher.ts',
    'webhooks/further-events.ts',
    'webhooks/outbox.ts',
    'webhooks/receiver-of.ts',
  ],
  http: [
    'accounts',
    'checks/held.ts',
    'directories',
    'history/audit.ts',
    'history/events.ts',
    'history/kept-answers.ts',
    'links',
    'nodes/move/departure.ts',
    'uploads/announce.ts',
    'uploads/complete-files.ts',
    'uploads/content.ts',
    'uploads/directory-files.ts',
    'uploads/file-path.ts',
    'uploads/precondition.ts',
    'uploads/upload-list.ts',
    'webhooks',
  ],
  dashboard: [
    'accounts',
    'checks/held.ts',
    'directories',
    'history',
    'http/access.ts',
    'http/client-address.ts',
    'http/file-answer.ts',
    'http/observe.ts',
    'http/rate-limits.ts',
    'http/raw-path.ts',
    'http/received-bytes.ts',
    'http/requested-path.ts',
    'http/turns.ts',
    'http/warnings.ts',
    'reports/activity.ts',
    'reports/login-log.ts',
    'reports/sshd-log.ts',
    'sftp/public-host-keys.ts',
    'uploads/announce.ts',
    'uploads/content.ts',
    'uploads/directory-files.ts',
    'uploads/file-changes.ts',
    'uploads/file-path.ts',
    'uploads/folders.ts',
    'uploads/partial.ts',
    'uploads/upload-list.ts',
    'users',
    'webhooks',
  ],
  listen: ['webhooks/signature.ts'],
  cli: [
    'accounts',
    'backup',
    'checks/held.ts',
    'directories/json-text.ts',
    'doctor',
    'history/audit-in-words.ts',
    'history/erase.ts',
    'listen',
    'nodes',
    'prepare.ts',
    'reports',
    'serve.ts',
    'sftp',
    'uploads/file-path.ts',
    'uploads/partial.ts',
    'users',
    'webhooks/replay.ts',
  ],
};

/** The files that put the parts together. */
const ROOTS = [
  'dashboard-app.ts',
  'main.ts',
  'prepare.ts',
  'serve.ts',
  'service.ts',
  'systemd.ts',
  'upkeep.ts',
  'while-away.ts',
];

/** Packages that one place alone may know. */
const PACKAGES: Record<string, readonly string[]> = {
  'better-sqlite3': ['db'],
  chokidar: ['uploads/disk/jail-watcher.ts'],
  got: ['webhooks'],
  hono: ['http', 'dashboard'],
  'openid-client': ['users/openid-provider.ts'],
  otpauth: ['users'],
  uqr: ['dashboard'],
  '@valibot/to-json-schema': ['http/openapi/json-schema.ts'],
  '@hono/node-server': ['http'],
  sshpk: ['directories/public-key.ts'],
  commander: ['cli'],
  pino: ['log.ts'],
  'prom-client': ['metrics'],
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

const within = (file: string, places: readonly string[]): boolean =>
  places.some((place) => file === place || file.startsWith(`${place}/`));

test('every arrow between folders is one that the map allows', () => {
  const wrong = files
    .filter((file) => !ROOTS.includes(file))
    .flatMap(importsOf)
    .filter(({ to }) => files.includes(to))
    .filter(({ from, to }) => {
      const feature = Object.keys(ALLOWED).find((name) => within(from, [name]));
      const allowed = feature === undefined ? GROUND : [feature, ...GROUND, ...(ALLOWED[feature] ?? [])];
      return !within(to, allowed);
    });
  assert.deepEqual(wrong, []);
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
