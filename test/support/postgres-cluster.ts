/** Starts a PostgreSQL for the tests of one run, and ends it (node --test-global-setup). Nothing of it outlives the run. */
import { execFileSync } from 'node:child_process';
import { chownSync, globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '../../src/db/open.ts';
import { onPostgres, SOCKET, TEMPLATE, urlOf } from './postgres.ts';

const ROOT = '/srv/berth-test';

/** Crashes of berth are tested on it, not of the machine: what it has not synced yet is as safe for that. */
const SETTINGS = [
  'listen_addresses=',
  'max_connections=400',
  'shared_buffers=64MB',
  'fsync=off',
  'full_page_writes=off',
  'autovacuum_naptime=5s',
];

let folder: string | undefined;

export async function globalSetup(): Promise<void> {
  if (!onPostgres) return;
  mkdirSync(ROOT, { recursive: true, mode: 0o755 });
  folder = mkdtempSync(join(ROOT, 'postgres-'));
  const uid = Number(execFileSync('id', ['-u', 'postgres'], { encoding: 'utf8' }));
  chownSync(folder, uid, uid);
  asPostgres(
    'initdb',
    '-A',
    'trust',
    '-U',
    'postgres',
    '-E',
    'UTF8',
    '--locale=C',
    '--no-sync',
    '-D',
    join(folder, 'data'),
  );
  const options = [...SETTINGS, `unix_socket_directories=${folder}`].flatMap((each) => ['-c', each]).join(' ');
  asPostgres('pg_ctl', '-w', '-s', '-D', join(folder, 'data'), '-l', join(folder, 'log'), '-o', options, 'start');
  process.env[SOCKET] = folder;
  execFileSync('psql', ['-qX', '-d', urlOf('postgres'), '-c', `create database ${TEMPLATE}`]);
  await (await openDatabase(urlOf(TEMPLATE))).close();
}

export function globalTeardown(): void {
  if (folder === undefined) return;
  asPostgres('pg_ctl', '-w', '-s', '-D', join(folder, 'data'), '-m', 'immediate', 'stop');
  rmSync(folder, { recursive: true, force: true });
}

/** The server refuses to be root. */
function asPostgres(program: string, ...args: readonly string[]): void {
  const [bin = ''] = globSync('/usr/lib/postgresql/*/bin').toSorted().toReversed();
  const command = userInfo().uid === 0 ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : [];
  const [first = '', ...rest] = [...command, join(bin, program), ...args];
  execFileSync(first, rest, { cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] });
}
