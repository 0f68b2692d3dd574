/**
 * Uploads whose end is not logged: serve, the sessions and the machine go down in every order while handles are open. Their
 * files are `partial`: not listed, not announced, counted. Resumed and closed, it is an upload.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { issueKey, webhookOf } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, type ServeProcess, startServe } from '../support/serve-process.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { runSshd, startSshd } from '../support/sshd.ts';

const END_SESSIONS = fileURLToPath(new URL('../../scripts/lib/end-sessions', import.meta.url));
const LOG_SOCKETS = fileURLToPath(new URL('../../scripts/lib/log-sockets', import.meta.url));

/** The content of a file whose handle stays open. */
const STUMP = 'x'.repeat(30_000);

/** A number that no process has. */
const NO_PROCESS = 5_000_000;

/** Longer than a file has to be stable before it is found, and a sweep of dead sessions takes, in ms. */
const LONG = 9000;

async function stumpPlace() {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const hook = parts.use(await receiver({ eachOnce: true }));
  let sshd = await startSshd(place);
  parts.defer(() => sshd[Symbol.asyncDispose]());
  const { config, environment } = await fixedPorts(place, sshd, { BERTH_RATE_LIMIT: '100000' });
  const apiKey = await issueKey(config);
  let boot = 1;
  let serve: ServeProcess | undefined;
  parts.defer(() => serve?.[Symbol.asyncDispose]());
  const start = async (): Promise<void> => {
    serve = await startServe(config, { ...environment, BERTH_BOOT_ID: `boot ${boot}` }, { by: [LOG_SOCKETS] });
  };
  await start();
  const send = async (method: string, path: string, json?: object) => {
    using client = clientOf(config, apiKey);
    const { json: answer, text } = await client.send(method, `/directories${path}`, json === undefined ? {} : { json });
    const { data } = answer as { data?: Record<string, unknown> };
    if (data === undefined) throw new Error(text);
    return data;
  };
  const made = await send('POST', '', { directory: { name: 'stumps' } });
  await send('PATCH', `/${String(made['id'])}`, { directory: { webhook_url: hook.url } });
  const [username, password] = [String(made['sftp_username']), String(made['sftp_password'])];
  const owned = parts.move();
  return {
    username,
    environment,
    files: join(config.jailDir, username, 'files'),
    journal: join(config.stateDir, 'journal', username),
    async session() {
      return sftpSession(owned.use(await connect({ port: sshd.port, username, password })));
    },
    start,
    stop: async (signal: NodeJS.Signals): Promise<void> => void (await serve?.kill(signal)),
    async killSessions(): Promise<void> {
      await sshd.kill();
      sshd = await runSshd(sshd.config);
    },
    endSessions: () => void execFileSync(END_SESSIONS, { env: { PATH: process.env['PATH'], ...environment } }),
    /** From the next start on. */
    nextBoot: () => void (boot += 1),
    announced: () =>
      hook.requests.map((request) => webhookOf(request)).map((one) => `${one.filename} ${one.size_bytes}`),
    async listed(): Promise<string[]> {
      const uploads = (await send('GET', `/${String(made['id'])}/uploads`)) as unknown as Record<string, unknown>[];
      return uploads.map((upload) => `${String(upload['filename'])} ${String(upload['size_bytes'])}`).toSorted();
    },
    storage: async () => (await send('GET', `/${String(made['id'])}`))['storage_bytes'],
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Place = Awaited<ReturnType<typeof stumpPlace>>;

/** How everything ends, in that order. */
const ENDS: Record<string, (place: Place) => Promise<void>> = {
  async 'serve and the sessions are killed'(place) {
    await place.stop('SIGKILL');
    await place.killSessions();
  },
  async 'the sessions and serve are killed at once'(place) {
    await Promise.all([place.killSessions(), place.stop('SIGKILL')]);
  },
  async 'serve is stopped, then the sessions are killed'(place) {
    await place.stop('SIGTERM');
    await place.killSessions();
  },
};

void describe('stumps', { concurrency: 3 }, () => {
  for (const [name, end] of Object.entries(ENDS)) {
    test(`${name}: a file that was cut off is not an upload until it is resumed and closed`, async () => {
      await using place = await stumpPlace();
      const session = await place.session();
      await session.put('whole', 'whole');
      const handle = await session.open('stump', 'w');
      await session.write(handle, STUMP);
      await until('one is announced', () => place.announced().length === 1);
      await end(place);
      await place.start();
      await until('what is there is counted', async () => (await place.storage()) === STUMP.length + 5);
      await wait(LONG);
      assert.deepEqual(place.announced(), ['whole 5']);
      assert.deepEqual(await place.listed(), ['whole 5']);
      const next = await place.session();
      const resumed = await next.open('stump', 'a');
      await next.write(resumed, 'y');
      await next.close(resumed);
      await until('it is announced', () => place.announced().includes(`stump ${STUMP.length + 1}`));
      assert.deepEqual(await place.listed(), [`stump ${STUMP.length + 1}`, 'whole 5']);
    });
  }

  test('at a shutdown the sessions end first and are heard, and the next boot doubts nothing', async () => {
    await using place = await stumpPlace();
    const session = await place.session();
    const handle = await session.open('stump', 'w');
    await session.write(handle, STUMP);
    place.endSessions();
    await until('its end is heard', async () => (await place.storage()) === STUMP.length);
    await place.stop('SIGTERM');
    // By an administrator, while everything is down.
    writeFileSync(join(place.files, 'copied'), 'copied');
    place.nextBoot();
    await place.start();
    await until('it is announced', () => place.announced().length > 0);
    assert.deepEqual(place.announced(), ['copied 6']);
    assert.deepEqual(await place.listed(), ['copied 6']);
  });

  test('after a power cut, only files that the journal proves complete are announced', async () => {
    await using place = await stumpPlace();
    const session = await place.session();
    await session.put('recorded', 'recorded');
    await until('one is announced', () => place.announced().length === 1);
    await place.stop('SIGKILL');
    // They wait in the sockets' backlog only: serve dies with them.
    const short = join(place.files, 'short');
    await session.put('unheard', 'unheard');
    writeFileSync(short, '');
    await place.killSessions();
    place.nextBoot();
    await place.start();
    await until('what is there is counted', async () => (await place.storage()) === 15);
    await wait(LONG);
    assert.deepEqual(place.announced(), ['recorded 8']);
    assert.deepEqual(await place.listed(), ['recorded 8']);
    // Written while berth runs, it is found as ever.
    writeFileSync(join(place.files, 'copied'), 'copied');
    await until('it is announced', () => place.announced().includes('copied 6'));
  });

  test('after a power cut a complete close does not count, since a file may have its size and be zeros', async () => {
    await using place = await stumpPlace();
    await place.stop('SIGKILL');
    await place.killSessions();
    const at = Date.now() * 1000;
    const close = (name: string, written: number): string[] => [
      `open "${name}" flags WRITE,CREATE,TRUNCATE mode 0644`,
      `close "${name}" bytes read 0 written ${written}`,
    ];
    const texts = [
      `session opened for local user ${place.username} from [192.0.2.7]`,
      ...['zeros', 'cut', 'gone', 'empty'].flatMap((name) => close(name, name === 'empty' ? 0 : 8)),
      'open "held" flags WRITE,CREATE,TRUNCATE mode 0644',
    ];
    const records = texts.map((text, index) => ({ at: at + index, pid: NO_PROCESS, text, address: '192.0.2.7' }));
    writeFileSync(place.journal, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
    for (const [name, size] of [
      ['zeros', 8],
      ['cut', 3],
      ['empty', 0],
      ['held', 5],
    ] as const) {
      writeFileSync(join(place.files, name), '\0'.repeat(size));
    }
    place.nextBoot();
    await place.start();
    await until('what is there is counted', async () => (await place.storage()) === 16);
    await wait(LONG);
    assert.deepEqual(place.announced(), ['empty 0']);
    assert.deepEqual(await place.listed(), ['empty 0']);
    const { stdout, stderr } = await runHere(place.environment, 'partial', 'list', '--json');
    assert.notEqual(stdout, '', stderr);
    const partial = JSON.parse(stdout) as { filename: string; reason: string }[];
    const closed = 'closed it, and the machine went down before the file was known to be on the disk';
    assert.deepEqual(partial.map(({ filename, reason }) => `${filename}: ${reason}`).toSorted(), [
      `cut: the session from 192.0.2.7 ${closed}`,
      'held: the session from 192.0.2.7 was cut off while writing it',
      `zeros: the session from 192.0.2.7 ${closed}`,
    ]);
  });
});
