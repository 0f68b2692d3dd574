/** A PostgreSQL server of the tests' own. Nothing of it outlives the process that has started it, however that ends. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, globSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './scratch.ts';

/** Crashes of berth are tested on it, not of the machine: what it has not synced yet is as safe for that. */
const SETTINGS = [
  'max_connections=400',
  'shared_buffers=64MB',
  'fsync=off',
  'full_page_writes=off',
  'autovacuum_naptime=5s',
];

/** Waits for the end of this process, by whatever way it ends, then leaves nothing of the server. */
const CLEAR = 'cat; for data in "$0"/*/; do "$@" -s -D "$data" -m immediate stop; done; rm -rf "$0"';

const INITDB = ['--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C', '--no-sync'];

const [BIN = ''] = globSync('/usr/lib/postgresql/*/bin').toSorted().toReversed();

export interface PostgresServer extends AsyncDisposable {
  /** Where its socket is, its log, and room for the data of another server. */
  readonly folder: string;
  /** Resolves once it takes connections. @param data a folder in `folder`. */
  start(data?: string): Promise<void>;
  /** Ends all connections. @param mode as pg_ctl(1) has it. */
  stop(mode?: 'fast' | 'immediate', data?: string): Promise<void>;
  /** Runs one of its programs as its user. */
  run(program: string, ...args: readonly string[]): Promise<void>;
}

export interface PostgresServerOptions {
  /** Lines of pg_hba.conf: who gets in, and how. */
  readonly access: readonly string[];
  readonly settings: readonly string[];
}

/** One with fresh data, which has not been started. */
export async function postgresServer({ access, settings }: PostgresServerOptions): Promise<PostgresServer> {
  mkdirSync(ROOT, { recursive: true, mode: 0o755 });
  const folder = mkdtempSync(join(ROOT, 'postgres-'));
  const keeper = spawn('sh', ['-c', CLEAR, folder, ...asPostgres(), join(BIN, 'pg_ctl')], {
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    // In a session of its own: Ctrl-C ends only the others.
    detached: true,
  });
  if (isRoot) chownSync(folder, Number(execFileSync('id', ['-u', 'postgres'], { encoding: 'utf8' })), 0);
  const run = async (program: string, ...args: readonly string[]): Promise<void> => {
    const [command = '', ...rest] = [...asPostgres(), join(BIN, program), ...args];
    const child = spawn(command, rest, { cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] });
    const [status] = (await once(child, 'exit')) as [number | null];
    if (status !== 0) throw new Error(`${program} ended with status ${status}`);
  };
  const control = (data: string, ...args: readonly string[]): Promise<void> =>
    run('pg_ctl', '-w', '-s', '-D', join(folder, data), ...args);
  const options = [...SETTINGS, ...settings, `unix_socket_directories=${folder}`].flatMap((each) => ['-c', each]);
  await run('initdb', ...INITDB, '-D', join(folder, 'data'));
  writeFileSync(join(folder, 'data', 'pg_hba.conf'), `${access.join('\n')}\n`);
  return {
    folder,
    run,
    start: (data = 'data') => control(data, '-l', join(folder, 'log'), '-o', options.join(' '), 'start'),
    stop: (mode = 'fast', data = 'data') => control(data, '-m', mode, 'stop'),
    async [Symbol.asyncDispose]() {
      keeper.stdin?.end();
      await once(keeper, 'exit');
    },
  };
}

const isRoot = userInfo().uid === 0;

/** The server refuses to be root. */
function asPostgres(): string[] {
  return isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : [];
}
