/** What an operator sees of real sessions: the history, the metrics, the commands, and their agreement. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { historyOf, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { runHere, startCommand } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth({ BERTH_METRICS_PORT: '0', BERTH_LOG_LEVEL: 'silent' });

type Row = Record<string, unknown>;

/** The metrics' samples by name and labels. */
async function scrape(berth: TestBerth): Promise<Map<string, number>> {
  const answer = await fetch(`http://127.0.0.1:${berth.service().metricsPort}/metrics`);
  assert.equal(answer.status, 200);
  const samples = (await answer.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    samples.map((line) => {
      const space = line.lastIndexOf(' ');
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}

/** By how much each sample is more than it was; counters start with their first event. */
async function scrapeSince(berth: TestBerth, before: ReadonlyMap<string, number>): Promise<Map<string, number>> {
  const now = await scrape(berth);
  return new Map([...now].map(([name, value]) => [name, value - (before.get(name) ?? 0)]));
}

async function json(environment: Record<string, string>, ...args: string[]): Promise<Row[]> {
  const { status, stdout, stderr } = await runHere(environment, ...args, '--json');
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as Row[];
}

/** One of everything that a session can do. */
async function everything(berth: TestBerth, directory: TestDirectory): Promise<void> {
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('first', 'hello');
  await session.put('second.part', 'two');
  await session.rename('second.part', 'second');
  await session.rename('first', 'renamed');
  const reading = await session.open('renamed', 'r');
  await new Promise((resolve) => session.raw.read(reading, Buffer.alloc(5), 0, 5, 0, resolve));
  await session.close(reading);
  // What has gone before berth could look at it was never there.
  await until('both uploads are recorded', async () => (await berth.uploads(directory)).length === 2);
  await session.remove('second');
}

test('the history names who did what, from where; metrics, log and commands agree with it', async () => {
  await using berth = await shared();
  const { place } = berth;
  const before = await scrape(berth);
  const directory = await berth.directory({ external_id: 'order-7' });
  await everything(berth, directory);

  const ofDirectory = ['transfers', '--directory', directory.username];
  await until('the session has ended', async () => (await historyOf(berth, directory)).includes('session-closed'));
  const rows = await json(place.environment, ...ofDirectory);
  assert.deepEqual(
    rows.map(({ event, path, from, bytes }) => [event, path, from, bytes]),
    [
      ['session-opened', null, null, null],
      ['uploaded', 'first', null, 5],
      ['uploaded', 'second', 'second.part', 3],
      ['renamed', 'renamed', 'first', 5],
      ['downloaded', 'renamed', null, 5],
      ['removed', 'second', null, 3],
      ['session-closed', null, null, null],
    ],
  );
  for (const row of rows) {
    assert.deepEqual(
      [row['username'], row['directory_id'], row['external_id'], row['address']],
      [directory.username, directory.id, 'order-7', '127.0.0.1'],
    );
  }
  const [opened, upload] = rows;
  assert.ok(
    String(upload?.['opened_at']) > String(opened?.['at']) && String(upload?.['opened_at']) <= String(upload?.['at']),
  );

  await until('both webhooks are delivered', async () => {
    const delivered = (await scrapeSince(berth, before)).get('berth_webhook_attempts_total{outcome="delivered"}');
    return delivered === 2;
  });
  const seen = await scrapeSince(berth, before);
  const value = (name: string): number | undefined => seen.get(name);
  assert.equal(value('berth_transfers_total{event="uploaded"}'), 2);
  assert.equal(value('berth_transfers_total{event="session-opened"}'), 1);
  assert.equal(value('berth_uploaded_bytes_total'), 8);
  assert.equal(value('berth_downloaded_bytes_total'), 5);
  assert.equal(value('berth_close_to_delivery_seconds_count'), 2);
  assert.ok((value('berth_close_to_delivery_seconds_sum') ?? 0) > 0);
  assert.equal(value('berth_http_requests_total{method="POST",route="/api/v1/directories",status="201"}'), 1);
  const now = await scrape(berth);
  assert.equal(now.get('berth_outbox_deliveries{state="queued"}'), 0);
  assert.equal(now.get('berth_sftp_sessions'), 0);
  assert.equal(now.get('berth_transfer_log_up'), 1);

  const table = (await runHere(place.environment, ...ofDirectory, '--event', 'renamed')).stdout;
  assert.match(
    table,
    /^TIME +EVENT +USERNAME +ADDRESS +BYTES +PATH\n\S+Z +renamed +\S+ +127\.0\.0\.1 +5 +first -> renamed\n$/,
  );
});

test('dropped uploads and downloads, and logins over the limit, are counted', async () => {
  await using berth = await shared();
  const before = await scrape(berth);
  const directory = await berth.directory({ max_connections: 1 });
  const connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await session.put('whole', 'all of it');
  await session.open('whole', 'r');
  await session.write(await session.open('half', 'w'), 'half of');
  await assert.rejects(berth.connect(directory));
  connection.drop();
  await until('the drops are counted', async () => {
    const seen = await scrapeSince(berth, before);
    return (
      seen.get('berth_transfers_total{event="upload-dropped"}') === 1 &&
      seen.get('berth_transfers_total{event="download-dropped"}') === 1 &&
      seen.get('berth_partial_uploads') === 1 &&
      seen.get('berth_logins_denied_total{reason="too-many-connections"}') === 1
    );
  });
});

test('a file that is read in a loop is two rows of the history, with all of its bytes', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  {
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    await session.put('a', 'hello');
    for (let i = 0; i < 300; i += 1) {
      const reading = await session.open('a', 'r');
      await new Promise((resolve) => session.raw.read(reading, Buffer.alloc(5), 0, 5, 0, resolve));
      await session.close(reading);
    }
  }
  await until('the session has ended', async () => (await historyOf(berth, directory)).includes('session-closed'));
  const rows = await json(place.environment, 'transfers', '--directory', directory.username);
  const reads = rows.filter((row) => row['event'] === 'downloaded');
  // Each minute that the loop took has two.
  assert.ok(reads.length >= 2 && reads.length <= 6, `${reads.length} rows`);
  assert.equal(
    reads.reduce((sum, { bytes }) => sum + Number(bytes), 0),
    1500,
  );
});

test('sessions are shown while berth is down, with their directory; --follow shows those that come and go', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory({ external_id: 'order-8' });
  const before = Date.now();
  await using first = await berth.connect(directory);
  await sftpSession(first);
  await berth.stop();

  const [row, ...others] = await json(place.environment, 'sessions');
  assert.deepEqual(others, []);
  assert.deepEqual(
    [row?.['username'], row?.['address'], row?.['directory_id'], row?.['external_id']],
    [directory.username, '127.0.0.1', directory.id, 'order-8'],
  );
  // To the second: it is reckoned from the time of the boot.
  const since = Date.parse(String(row?.['since']));
  assert.ok(since > before - 2000 && since < Date.now() + 2000, `since ${since}, not before ${before}`);

  using following = startCommand(place.environment, ['sessions', '--follow', '--json']);
  const lines: Row[] = [];
  createInterface(following.stdout).on('line', (line) => void lines.push(JSON.parse(line) as Row));
  await until('the live session is shown', () => lines.length === 1);
  const second = await berth.connect(directory);
  await until('the new session is shown', () => lines.length === 2);
  second.client.end();
  await until('its end is shown', () => lines.length === 3);
  assert.deepEqual(
    lines.map((line) => line['session']),
    ['live', 'opened', 'closed'],
  );
  following.kill('SIGINT');
  assert.deepEqual(await once(following, 'exit'), [0, null]);
  await berth.start();
});

test('a session that outlives a restart keeps its address; what it does goes on in the history as it happens', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  await berth.stop();
  await berth.start();

  const uploaded = ['transfers', '--directory', directory.username, '--event', 'uploaded'];
  using following = startCommand(place.environment, [...uploaded, '--follow', '--json']);
  const line = once(createInterface(following.stdout), 'line');
  await session.put('later', 'x');
  const row = JSON.parse(String((await line)[0])) as Row;
  assert.deepEqual([row['path'], row['address'], row['username']], ['later', '127.0.0.1', directory.username]);
  following.kill('SIGTERM');
  assert.deepEqual(await once(following, 'exit'), [0, null]);
});
