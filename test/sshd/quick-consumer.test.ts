/**
 * A consumer deletes each upload within a few ms of its webhook, while the client still asks for the file: its size, its times, its
 * mode. Real clients, and the requests of clients that do not run here, from near and far away.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { farAway } from '../support/far-away.ts';
import { rounds } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { pythonEnvironment } from '../support/python-environment.ts';
import { CREATE_ANEW, FXP, OPEN, rawSftp, type RawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';

const run = promisify(execFile);
const PARAMIKO = fileURLToPath(new URL('../foreign/paramiko/', import.meta.url));
const ROUND_TRIPS_MS = [0, 40, 200];
const FILES = rounds(5, 12);
/** A new machine installs paramiko first. */
const TIMEOUT = 600_000;

/** A consumer of everything that arrives, and the names of the uploads that it has deleted. */
interface Consumer extends AsyncDisposable {
  readonly berth: TestBerth;
  readonly consumed: string[];
}

async function startConsumer(): Promise<Consumer> {
  const parts = new AsyncDisposableStack();
  const consumed: string[] = [];
  let berth: TestBerth | undefined = undefined;
  const consume = async (request: { readonly headers: object; readonly body: Buffer }): Promise<void> => {
    const { filename, directory_id } = webhookOf(request);
    const { 'webhook-upload-id': id = '' } = request.headers as Record<string, string>;
    const removed = await berth?.send('DELETE', `/directories/${directory_id}/uploads/${id}`);
    if (removed?.status === 204) consumed.push(filename);
  };
  berth = parts.use(
    await startBerth(parts.use(scratch()), {
      receiver: {
        respond(response, request) {
          response.writeHead(204).end();
          consume(request).catch(() => undefined);
        },
      },
    }),
  );
  return { berth, consumed, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

interface Sending {
  readonly port: number;
  readonly directory: TestDirectory;
  /** A folder with the files to send. */
  readonly folder: string;
}

type Client = (sending: Sending) => Promise<void>;

const paramiko: Client = async ({ port, directory, folder }) => {
  const programs = await pythonEnvironment(join(PARAMIKO, 'requirements.txt'));
  await run(join(programs, 'python'), [join(PARAMIKO, 'put.py'), String(port), directory.username, folder], {
    env: { ...process.env, PASSWORD: directory.password },
  });
};

const rclone: Client = async ({ port, directory, folder }) => {
  const { stdout: password } = await run('rclone', ['obscure', directory.password]);
  const at = `:sftp,host=127.0.0.1,port=${port},user=${directory.username},pass=${password.trim()},shell_type=none:`;
  // One try: another one would hide what went wrong.
  const { stderr } = await run('rclone', ['copy', '--retries', '1', '--low-level-retries', '1', folder, at]);
  assert.doesNotMatch(stderr, /ERROR|Failed/);
};

/** Attributes: both times. */
const TIMES = [8, 1_700_000_000, 1_700_000_000] as const;
/** Attributes: the mode, and both times. */
const MODE_AND_TIMES = [4 | 8, 0o644, 1_700_000_000, 1_700_000_000] as const;

/** Sends each file with those requests, which sshd may not refuse. */
function playing(put: (sftp: RawSftp, name: string, data: string) => Promise<void>): Client {
  return async ({ port, directory, folder }) => {
    await using connection = await connect({ ...directory.login, port });
    const sftp = await rawSftp(connection);
    for (const name of readdirSync(folder)) await put(sftp, name, name);
  };
}

async function granted(what: string, answer: Promise<{ readonly status: number | undefined }>): Promise<void> {
  assert.equal((await answer).status ?? 0, 0, `${what} was refused`);
}

/** With its temporary name for larger files. */
const winscp = playing(async (sftp, name, data) => {
  assert.ok(await sftp.put(`${name}.filepart`, data));
  await granted('the rename', sftp.replace(`${name}.filepart`, name));
  await granted('the change of times and mode', sftp.request(FXP.SETSTAT, name, ...MODE_AND_TIMES));
  await granted('lstat', sftp.request(FXP.LSTAT, name));
});

/** Without one, for smaller files. */
const winscpSmall = playing(async (sftp, name, data) => {
  const handle = await sftp.open(name, CREATE_ANEW);
  assert.ok(handle);
  await granted('the write', sftp.request(FXP.WRITE, handle, 0n, data));
  await granted('the close', sftp.request(FXP.CLOSE, handle));
  await granted('the change of times and mode', sftp.request(FXP.SETSTAT, name, ...MODE_AND_TIMES));
});

const filezilla = playing(async (sftp, name, data) => {
  assert.ok(await sftp.put(name, data));
  await granted('the change of times', sftp.request(FXP.SETSTAT, name, ...TIMES));
  await granted('the change of the mode', sftp.request(FXP.SETSTAT, name, 4, 0o640));
  await granted('stat', sftp.request(FXP.STAT, name));
});

/** What a program may do on a mounted directory: it opens the file again, and only reads. */
const sshfs = playing(async (sftp, name, data) => {
  assert.ok(await sftp.put(name, data));
  await granted('the change of times', sftp.request(FXP.SETSTAT, name, ...TIMES));
  await granted('lstat', sftp.request(FXP.LSTAT, name));
  const handle = await sftp.open(name, OPEN.read);
  assert.ok(handle, 'it was not there any more');
  await granted('the read', sftp.request(FXP.READ, handle, 0n, 100));
  await granted('the close', sftp.request(FXP.CLOSE, handle));
});

const CLIENTS = { paramiko, rclone, WinSCP: winscp, 'WinSCP, small files': winscpSmall, FileZilla: filezilla, sshfs };

test(
  'a consumer that deletes at once: no client fails, and each file is consumed once',
  { timeout: TIMEOUT },
  async (t) => {
    await using consumer = await startConsumer();
    const { berth, consumed } = consumer;
    for (const [name, send] of Object.entries(CLIENTS))
      for (const roundTripMs of ROUND_TRIPS_MS)
        await t.test(`${name}, ${roundTripMs} ms away`, async () => {
          await using way = await farAway(berth.sshd.port, roundTripMs);
          const directory = await berth.directory();
          const folder = join(berth.place.dir, `${directory.username}-outgoing`);
          mkdirSync(folder);
          const names = Array.from({ length: FILES }, (_, i) => `${name}-${roundTripMs}-${i}.csv`);
          for (const each of names) writeFileSync(join(folder, each), each);
          consumed.length = 0;
          await send({ port: way.port, directory, folder });
          await until('all are consumed', () => consumed.length >= FILES, 20);
          // The session has ended.
          await until('nothing is left', () => readdirSync(directory.files).length === 0);
          assert.deepEqual(consumed.toSorted(), names.toSorted());
          assert.deepEqual(await berth.uploads(directory), []);
          assert.equal(await berth.storage(directory), 0);
        });
  },
);
