/** The Activity page of a directory: all that happened to it, and its live sessions. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { insertTransfers } from '../../src/rules/history/transfers.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { journalOf } from '../support/journal.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { rawSftp } from '../support/raw-sftp.ts';

const shared = sharedDashboard();

const PATH = process.env['PATH'];

function place(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

function activityOf({ id }: { id: string }): string {
  return `/dashboard/directories/${id}/activity`;
}

/** Each line of the history, without markup. */
function linesOf(text: string): string[] {
  const [, table = ''] = /<caption>Newest first<\/caption>.*?<tbody>(.*?)<\/tbody>/s.exec(text) ?? [];
  return table
    .split('</tr>')
    .slice(0, -1)
    .map((row) => (row.split('</td>')[0] ?? '').replaceAll(/<[^>]*>/g, '').trim());
}

test('a customer’s day: logins, failed logins with reasons, files and changes, newest first, and filtered by topic', async () => {
  // A busy machine may take longer for all this than berth waits before the second attempt.
  using files = scratch({ BERTH_DASHBOARD: 'on', BERTH_WEBHOOK_RETRY_DELAYS: '3600,3600,3600' });
  const begins = Date.now();
  process.env['PATH'] = `${journalOf(files.dir, '', begins)}:${PATH}`;
  await using berth = await startBerth(files, { receiver: { respond: (response) => response.writeHead(500).end() } });
  const directory = await berth.directory({ max_connections: 1 });
  const { login } = directory;
  writeFileSync(join(files.dir, 'report.csv'), 'data');
  assert.equal((await sftp(files.dir, login, ['put report.csv', 'rename report.csv final.csv'])).code, 0);
  assert.equal((await sftp(files.dir, { ...login, password: 'wrong' }, ['pwd'])).code, 255);
  {
    await using open = await berth.connect(directory);
    await open.sftp();
    await assert.rejects(berth.connect(directory));
  }
  process.env['PATH'] = PATH;
  journalOf(files.dir, berth.sshd.output(), begins);
  using user = await signedIn(place(berth), berth.accountId, 'member');
  const lines = async (query = ''): Promise<string[]> => linesOf((await user.get(activityOf(directory) + query)).text);
  await until('all of it has been recorded', async () => {
    const found = (await lines()).join('\n');
    return found.match(/, \d+ s(?:$|:)/gm)?.length === 2 && found.includes('too many connections');
  });
  const all = await lines();
  for (const expected of [
    /^API key &quot;test&quot; created the directory$/m,
    /^API key &quot;test&quot; changed the webhook URL \(http:\/\/127\.0\.0\.1:\d+\)$/m,
    /^Customer \(127\.0\.0\.1\) (?:was connected|logged in by password), \d+ s: 1 file renamed, 1 uploadedrenamed report\.csv to final\.csv \(4 B\)uploaded report\.csv \(4 B\) webhook$/m,
    /^Customer \(127\.0\.0\.1\) (?:was connected|logged in by password), \d+ s$/m,
    /^Customer \(127\.0\.0\.1\) failed to log in: wrong password$/m,
    /^Customer \(127\.0\.0\.1\) failed to log in: right password, but too many connections$/m,
  ])
    assert.match(all.join('\n'), expected);
  assert.equal(all.filter((line) => line.includes('report.csv')).length, 1, 'a session is one line');
  const first = (part: string): number => all.findIndex((line) => line.includes(part));
  assert.ok(
    first('wrong password') < first('uploaded report.csv') && first('uploaded') < first('created the directory'),
  );

  assert.ok((await lines('?topic=logins')).every((line) => /log|connected/.test(line)));
  assert.deepEqual(await lines('?topic=files'), [
    'Customer (127.0.0.1) 1 file renamed, 1 uploadedrenamed report.csv to final.csv (4 B)uploaded report.csv (4 B) webhook',
  ]);
  assert.ok((await lines('?topic=changes')).every((line) => line.startsWith('API key')));
  assert.deepEqual(await lines('?topic=<script>'), all);
  assert.deepEqual(await lines('?q=FINAL'), ['Customer (127.0.0.1) renamed report.csv to final.csv (4 B)']);
  const { text } = await user.get(activityOf(directory));
  assert.ok(!text.includes(directory.password) && !text.includes(directory.secret));

  assert.equal((await user.get(activityOf({ id: 'unknown' }))).status, 404);
});

test('a session is one line with its login; a number of a process that is used again is another session', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Acme' });
  const at = Date.now() * 1000 - 3600e6;
  const database = await openDatabase(berth.config.database);
  const whose = { directory_id: directory.id, account_id: berth.accountId };
  const row = { ...whose, username: directory.username, address: '203.0.113.7', session_pid: 7 };
  await database.db.transaction().execute((tx) =>
    insertTransfers(tx, [
      { ...row, at, event: 'session-opened' },
      { ...row, at: at + 1e6, event: 'downloaded', path: 'a', bytes: 2048 },
      { ...row, at: at + 2e6, event: 'session-closed', began_at: at },
      { ...row, at: at + 60e6, event: 'session-opened' },
      { ...row, at: at + 61e6, event: 'uploaded', path: 'b', bytes: 1 },
      { ...row, at: at + 62e6, event: 'uploaded', path: 'c', bytes: 1 },
      { ...row, at: at + 63e6, event: 'removed', path: 'c', bytes: 1 },
      {
        ...row,
        at: at + 64e6,
        event: 'uploaded',
        path: 'd',
        bytes: 1,
        address: '203.0.113.8',
        session_pid: null,
        via: 'link',
      },
    ]),
  );
  const login = { ...whose, kind: 'login', address: '203.0.113.7' } as const;
  await database.db
    .insertInto('logins')
    .values([
      { ...login, at: at - 1e6, text: 'by password' },
      { ...login, at: at + 59e6, text: 'by key SHA256:x (ED25519)' },
      { ...login, at: at + 70e6, text: 'by password' },
    ])
    .execute();
  await database.close();
  using user = await signedIn(place(berth), berth.accountId);
  const expected = [
    'Customer (203.0.113.7) logged in by password',
    'A link (203.0.113.8) uploaded d (1 B) webhook',
    'Customer (203.0.113.7) logged in by key SHA256:x (ED25519): 1 file deleted, 2 uploadeddeleted c (1 B)uploaded c (1 B) webhookuploaded b (1 B) webhook',
    'Customer (203.0.113.7) logged in by password, 2 s: downloaded a (2.0 KiB)',
  ];
  const lines = linesOf((await user.get(activityOf(directory))).text);
  assert.deepEqual(
    lines.filter((line) => !line.startsWith('API key')),
    expected,
  );
  const whole = (await user.get('/dashboard/activity')).text;
  assert.deepEqual(
    linesOf(whole).filter((line) => line.includes('203.0.113.')),
    expected,
  );
  assert.match(whole, new RegExp(`<a class="name" href="/dashboard/directories/${directory.id}"><bdi>Acme</bdi>`));
  assert.match(whole, new RegExp(`href="/dashboard/directories/${directory.id}/files\\?q=b"`));
});

test('one session is ended by its button, the other goes on; a member and another account end none', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ max_connections: 5 });
  using admin = await signedIn(place(berth), berth.accountId);
  using member = await signedIn(place(berth), berth.accountId, 'member');
  const empty = await admin.get(activityOf(directory));
  assert.match(empty.text, /Nobody is connected\./);
  assert.match(empty.text, /The latest logins are missing: berth hasn’t found sshd’s log\./);
  await using first = await berth.connect(directory);
  await using second = await berth.connect(directory);
  const sessions = [await rawSftp(first), await rawSftp(second)];
  for (const session of sessions) assert.ok(await session.put('x', 'data'));
  const page = await admin.get(activityOf(directory));
  const names = [...page.text.matchAll(/name="session" value="([^"]*)"/g)].map(([, name = '']) => name);
  assert.equal(names.length, 2);
  assert.match(page.text, /<td role="rowheader">127\.0\.0\.1<\/td><td[^>]*><time datetime="20/);

  const end = `${activityOf(directory)}/end-session`;
  const [session = '', other = ''] = names;
  assert.doesNotMatch((await member.get(activityOf(directory))).text, /end-session/);
  assert.equal((await member.post(end, { session })).status, 403);
  const database = await openDatabase(berth.config.database);
  const account = { id: 'other', name: 'Other', plan: 'business', inserted_at: 1 } as const;
  await database.db.insertInto('accounts').values(account).execute();
  using stranger = await signedIn(place(berth), 'other');
  assert.equal((await stranger.get(activityOf(directory))).status, 404);
  assert.equal((await stranger.post(end, { session })).status, 404);
  const [pid = ''] = session.split('-');
  for (const wrong of ['', '1-1', `${pid}-1`, '0-0', '-1', '../x'])
    assert.equal((await admin.post(end, { session: wrong })).status, 303);
  const neighbour = await berth.directory();
  assert.equal((await admin.post(`${activityOf(neighbour)}/end-session`, { session })).status, 303);
  for (const each of sessions) assert.ok(await each.put('y', 'data'), 'nothing has ended');

  assert.match((await admin.submit(end, { session })).text, /The session has ended\. Its client may connect again\./);
  const ended = await Promise.race([first.closed.then(() => 0), second.closed.then(() => 1)]);
  const left = sessions[1 - ended];
  assert.ok(await left?.put('z', 'data'), 'the other goes on');
  const after = await admin.get(activityOf(directory));
  assert.ok(after.text.includes(`value="${other}"`) && !after.text.includes(`value="${session}"`));
  assert.match(linesOf(after.text).join('\n'), /^\S+@example\.com ended the session from 127\.0\.0\.1$/m);
  const audit = await database.db
    .selectFrom('audit')
    .selectAll()
    .where('key_id', 'like', 'user:%')
    .where('account_id', '=', berth.accountId)
    .execute();
  await database.close();
  assert.deepEqual(
    audit.map(({ action, key_id, directory_id, route }) => [action, key_id, directory_id, route]),
    [['update', `user:${admin.email}`, directory.id, 'POST /dashboard/directories/:id/activity/end-session']],
  );
  await using again = await berth.connect(directory);
  assert.ok(await (await rawSftp(again)).put('again', 'data'));
});

test('names that are HTML, controls or directions stand there as text, and a page has a bounded weight', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: '<script>alert(1)</script>' });
  const change = { directory: { name: '"><img src=x onerror=alert(1)>\u202egpj' } };
  assert.equal((await berth.send('PATCH', `/directories/${directory.id}`, { json: change })).status, 200);
  const database = await openDatabase(berth.config.database);
  const names = ['<script>alert(1)</script>', '\u001b[2J\u0007', '\u202egpj.exe', 'two\nlines', '<i>'.repeat(1300)];
  const row = {
    directory_id: directory.id,
    account_id: berth.accountId,
    username: directory.username,
    bytes: 1,
  };
  await database.db.transaction().execute((tx) =>
    insertTransfers(
      tx,
      names.flatMap((name) => [
        { ...row, at: Date.now() * 1000, event: 'uploaded', path: name },
        { ...row, at: Date.now() * 1000, event: 'renamed', path: name, from_path: name, address: '<b>' },
      ]),
    ),
  );
  await database.close();
  using user = await signedIn(place(berth), berth.accountId);
  for (const topic of ['', '?topic=files', '?topic=changes']) {
    const { text, status } = await user.get(activityOf(directory) + topic);
    assert.equal(status, 200);
    assert.doesNotMatch(text, /<script>|<img|<i>|<b>/);
    // eslint-disable-next-line no-control-regex -- the test looks for them
    assert.doesNotMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f\u202e]/);
    assert.ok(text.length < 60_000, `${text.length} bytes`);
  }
});

test('a time in a sentence is in the reader’s zone, but a name is shown as it is', async () => {
  await using berth = await shared();
  using user = await signedIn(place(berth), berth.accountId);
  const directory = await berth.directory();
  const json = { expires_at: '2040-01-02T03:04:00Z' };
  assert.equal((await berth.send('PATCH', `/directories/${directory.id}/access`, { json })).status, 200);
  const name = { json: { directory: { name: 'Report 2026-01-02 03:04 UTC' } } };
  assert.equal((await berth.send('PATCH', `/directories/${directory.id}`, name)).status, 200);
  const { text } = await user.get('/dashboard/activity?topic=changes');
  assert.match(text, /set the expiry to (?:<[^>]*>)*<time datetime="2040-01-02T03:04:00/);
  assert.match(text, /to &quot;Report 2026-01-02 03:04 UTC&quot;/);
});
