/** Starts a PostgreSQL for the tests of one run, and ends it (node --test-global-setup). Nothing of it outlives the run, even one that is killed. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, globSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '../../src/db/open.ts';
import { GUARDED, onPostgres, SOCKET, TEMPLATE, urlOf } from './postgres.ts';

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

/** Waits for the end of this process, by whatever way it ends, then leaves nothing of the server. */
const CLEAR = 'cat; "$0/pg_ctl" -s -D "$1/data" -m immediate stop; rm -rf "$1"';

let keeper: ChildProcess | undefined;

export async function globalSetup(): Promise<void> {
  if (!onPostgres) return;
  mkdirSync(ROOT, { recursive: true, mode: 0o755 });
  const folder = mkdtempSync(join(ROOT, 'postgres-'));
  const data = join(folder, 'data');
  const [bin = ''] = globSync('/usr/lib/postgresql/*/bin').toSorted().toReversed();
  const [first, ...more] = [...asPostgres(), 'sh', '-c', CLEAR, bin, folder];
  // In a session of its own: Ctrl-C ends only the others.
  keeper = spawn(first, more, { cwd: '/', stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  const run = (program: string, ...args: readonly string[]): void => {
    const [command = '', ...rest] = [...asPostgres(), join(bin, program), '-D', data, ...args];
    execFileSync(command, rest, { cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] });
  };
  if (isRoot) chownSync(folder, Number(execFileSync('id', ['-u', 'postgres'], { encoding: 'utf8' })), 0);
  run('initdb', '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C', '--no-sync');
  writeFileSync(join(data, 'pg_hba.conf'), `local all ${GUARDED} scram-sha-256\nlocal all all trust\n`);
  const options = [...SETTINGS, `unix_socket_directories=${folder}`].flatMap((each) => ['-c', each]).join(' ');
  run('pg_ctl', '-w', '-s', '-l', join(folder, 'log'), '-o', options, 'start');
  process.env[SOCKET] = folder;
  execFileSync('psql', ['-qX', '-d', urlOf('postgres'), '-c', `create database ${TEMPLATE}`]);
  await (await openDatabase(urlOf(TEMPLATE))).close();
}

export async function globalTeardown(): Promise<void> {
  if (keeper === undefined) return;
  keeper.stdin?.end();
  await once(keeper, 'exit');
}

const isRoot = userInfo().uid === 0;

/** The server refuses to be root. */
function asPostgres(): string[] {
  return isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : [];
}
