/**
 * A user with very many files, one folder of a great part of them, a file that grows all the time and a session that stays
 * open: how long API requests take meanwhile, kind by kind. Each kind is asked by a loop of its own, one request after
 * the other, so a stall counts once for each.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { ApiClient } from '../support/api-client.ts';
import { issueKey } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import { percentile } from '../support/percentile.ts';
import { until } from '../support/poll.ts';
import { onPostgres } from '../support/postgres.ts';
import { CREATE_ANEW, FXP, rawSftp, type RawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { connect } from '../support/sftp-client.ts';
import { startSshd } from '../support/sshd.ts';

/** The phase in which nothing but the session goes on. */
export const CALM = 'all recorded';

export interface CrowdOptions {
  readonly files: number;
  /** How many of them are in one folder. */
  readonly folder: number;
  /** Files that are uploaded through SFTP, one after the other. */
  readonly uploads: number;
  /** How long things are looked at when nothing but the session goes on, and after a restart, in ms; 0 leaves that out. */
  readonly calm: number;
  /** Where `berth serve` leaves CPU profiles. */
  readonly profiles?: string | undefined;
}

/** Milliseconds of one kind of request in one phase. */
export interface Took {
  readonly requests: number;
  readonly p50: number;
  readonly p99: number;
  readonly longest: number;
}

export interface Phase {
  readonly phase: string;
  readonly seconds: number;
  readonly took: Record<string, Took>;
  /** The p99 of all kinds together. */
  readonly p99: number;
}

/** Ends with the files of 1 byte each in folders of 1,000, but for the first. Run as the user's UID. */
const FILL = `
  my ($root, $files, $large) = @ARGV;
  chdir $root or die "$root: $!";
  for (my ($count, $folder) = (0, 0); $count < $files; $folder++) {
    mkdir "d$folder" or die $!;
    for (my $left = $folder ? 1000 : $large; $left > 0 && $count < $files; $left--, $count++) {
      open my $file, '>', "d$folder/$count" or die $!;
      syswrite $file, 'x';
    }
  }`;

/** Counts rows of SQLite in a process of its own: the measured process must not wait for it. */
const COUNT = `
  const { DatabaseSync } = require('node:sqlite');
  const [file, prefix] = process.argv.slice(1);
  const query = new DatabaseSync(file, { readOnly: true }).prepare('select count(*) as count from files where path > ? and path < ?');
  process.stdout.write(String(query.get(Buffer.from(prefix), Buffer.from(prefix + '~')).count));`;

const run = promisify(execFile);

export async function crowd(options: CrowdOptions): Promise<Phase[]> {
  const { files, folder } = options;
  using place = scratch({ BERTH_LOG_LEVEL: 'error', BERTH_RATE_LIMIT: '1000000' });
  await using sshd = await startSshd(place);
  const port = await freePort();
  const config = { ...sshd.config, api: { host: '127.0.0.1', port }, rateLimit: 1e6 };
  const environment = {
    ...place.environment,
    BERTH_API_PORT: String(port),
    BERTH_SFTP_PORT: String(sshd.port),
    ...(options.profiles === undefined ? {} : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${options.profiles}` }),
  };
  const key = await issueKey(config);
  const phases: Phase[] = [];

  const first = await startServe(config, environment);
  using client = clientOf(config, key);
  const made = await client.send('POST', '/directories', { json: { directory: { name: 'many' } } });
  const { id = '', ...shown } = (made.json as { data: Record<string, string> }).data;
  const { sftp_username: username = '', sftp_password: password = '' } = shown;
  await first.kill('SIGTERM');

  const root = `${config.jailDir}/${username}/files`;
  const { uid } = lstatSync(root);
  await run('perl', ['-e', FILL, root, String(files), String(folder)], { uid, gid: uid });
  await using connection = await connect({ port: sshd.port, username, password });
  const session = await rawSftp(connection);
  await using _growing = await grow(session);

  const count = async (prefix: string): Promise<number> => {
    await wait(500);
    const within = `select count(*) from files where path > '${prefix}' and path < '${prefix}~'`;
    const [program, ...asked] = onPostgres
      ? ['psql', '-qXAt', '-d', config.database, '-c', within]
      : [process.execPath, '-e', COUNT, config.database, prefix];
    return Number((await run(program, asked)).stdout);
  };
  const during = async (phase: string, work: () => Promise<unknown>): Promise<void> => {
    phases.push(await measure(phase, client, id, work));
  };
  const holds = (prefix: string, wanted: number): Promise<void> =>
    until(`${wanted} rows below ${prefix}`, async () => (await count(prefix)) === wanted, 900);

  await using stack = new AsyncDisposableStack();
  let serve = stack.use(await startServe(config, environment));
  await during('found by the scan', () => holds('d', files));
  if (options.calm > 0) {
    await during(CALM, () => wait(options.calm));
    await serve.kill('SIGTERM');
    serve = stack.use(await startServe(config, environment));
    await during('after a restart', () => wait(options.calm));
  }
  await during('uploads', async () => {
    for (let i = 0; i < options.uploads; i++) assert.ok(await session.put(`d0/upload-${i}`, 'x'));
    await holds('d0/upload-', options.uploads);
  });
  await during('large folder renamed', async () => {
    await session.rename('d0', 'e0');
    await holds('e0/', folder + options.uploads);
  });
  await during('large folder removed', async () => {
    await run('rm', ['-r', join(root, 'e0')], { uid, gid: uid });
    await holds('e0/', 0);
  });
  await serve.kill('SIGTERM');
  return phases;
}

/** A file that gets 1,000 bytes every 10 ms until the end. */
async function grow(session: RawSftp): Promise<AsyncDisposable> {
  const handle = await session.open('growing', CREATE_ANEW);
  assert.ok(handle);
  const over = new AbortController();
  const growing = (async () => {
    for (let at = 0n; !over.signal.aborted; at += 1000n) {
      await session.request(FXP.WRITE, handle, at, Buffer.alloc(1000));
      await wait(10);
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await growing;
    },
  };
}

async function measure(phase: string, client: ApiClient, id: string, work: () => Promise<unknown>): Promise<Phase> {
  const began = performance.now();
  const over = new AbortController();
  const working = work().finally(() => over.abort());
  const kinds = {
    'one directory': { pause: 5, ask: () => client.send('GET', `/directories/${id}`) },
    'list of directories': { pause: 20, ask: () => client.send('GET', '/directories') },
    'page of uploads': { pause: 20, ask: () => client.send('GET', `/directories/${id}/uploads?limit=100`) },
    create: { pause: 250, ask: () => client.send('POST', '/directories', { json: { directory: { name: phase } } }) },
  };
  const times: Record<string, number[]> = {};
  const asking = Object.entries(kinds).map(async ([kind, { pause, ask }]) => {
    const own: number[] = (times[kind] = []);
    while (!over.signal.aborted) {
      const sent = performance.now();
      const { status } = await ask();
      own.push(performance.now() - sent);
      assert.ok(status < 300, `${kind}: ${status}`);
      await wait(pause);
    }
  });
  await Promise.all([working, ...asking]);
  return {
    phase,
    seconds: Math.round((performance.now() - began) / 1000),
    took: Object.fromEntries(Object.entries(times).map(([kind, list]) => [kind, tookOf(list)])),
    p99: tookOf(Object.values(times).flat()).p99,
  };
}

function tookOf(times: readonly number[]): Took {
  const rounded = (part: number): number => Math.round(percentile(times, part) * 10) / 10;
  return { requests: times.length, p50: rounded(0.5), p99: rounded(0.99), longest: rounded(1) };
}
