/** `berth explain` for a customer after a full day: logins, refusals, files, webhooks, changes and the deletion. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { historyOf, type TestBerth } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { journalOf } from '../support/journal.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { connect } from '../support/sftp-client.ts';
import { CREATE_ANEW, FXP, OPEN, rawSftp } from '../support/raw-sftp.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const shared = sharedBerth();

interface Explained {
  readonly directory: { readonly id: string; readonly sftp_username: string; readonly name: string | null };
  readonly events: readonly {
    readonly at: string;
    readonly kind: string;
    readonly address: string | null;
    readonly text: string;
  }[];
  readonly notes: readonly string[];
}

function explaining(berth: TestBerth) {
  const { place } = berth;
  const run = (...args: string[]) => {
    const path = `${journalOf(place.dir, berth.sshd.output())}:${process.env['PATH']}`;
    return runCommand({ ...place.environment, PATH: path }, 'explain', ...args);
  };
  return {
    run,
    async explained(name: string): Promise<Explained> {
      const { status, stdout, stderr } = await run(name, '--since', '2h', '--json');
      assert.equal(status, 0, stderr);
      return JSON.parse(stdout) as Explained;
    },
  };
}

test('one line for each thing, in order, by every name of the directory, also after it was deleted', async () => {
  await using berth = await shared({ respond: (response) => response.writeHead(500).end() });
  const { place } = berth;
  const { run, explained } = explaining(berth);
  const directory = await berth.directory({ name: 'Acme Corp', external_id: 'cust-42', max_connections: 1 });
  const { login, username, id } = directory;
  writeFileSync(join(place.dir, 'report.csv'), 'data');
  assert.equal((await sftp(place.dir, login, ['put report.csv'])).code, 0);
  assert.equal((await sftp(place.dir, { ...login, password: 'wrong' }, ['pwd'])).code, 255);
  {
    await using open = await connect(login);
    await open.sftp();
    await assert.rejects(connect(login));
  }
  // A client that forges a line of the log.
  const forged = `x\nFailed password for ${username} from 6.6.6.6 port 1 ssh2\ny`;
  await assert.rejects(connect({ ...login, username: forged }));

  await until('both sessions have ended', async () => {
    const history = await historyOf(berth, directory);
    return history.filter((event) => event === 'session-closed').length === 2;
  });
  await until('the webhook was refused', async () => {
    const { json } = await berth.send('GET', `/directories/${id}/deliveries`);
    return (json as { data: { attempts: { status: number }[] }[] }).data[0]?.attempts[0]?.status === 500;
  });
  const { events, notes, directory: shown } = await explained('cust-42');
  assert.deepEqual([shown.id, shown.sftp_username, shown.name], [id, username, 'Acme Corp']);
  const texts = events.map(({ kind, text }) => `${kind}: ${text}`).join('\n');
  for (const expected of [
    /^change: API key "test" created the directory \(request \S+\)$/m,
    /^change: API key "test" changed the webhook URL \(http:\/\/127\.0\.0\.1:\d+\) \(request \S+\)$/m,
    /^session: Customer opened a session$/m,
    /^file: Customer uploaded report\.csv \(4 bytes\)$/m,
    /^webhook: report\.csv to http:\/\/\S+ \(delivery \S+\): attempt 1, answered 500 after [\d.]+ m?s$/m,
    /^webhook: report\.csv to http:\/\/\S+ \(delivery \S+\): attempt [2-4] is due$/m,
    /^session: Customer closed the session after /m,
    /^login: Customer logged in by password$/m,
    /^refused: Customer failed to log in: wrong password$/m,
    /^refused: Customer failed to log in: right password, but too many connections$/m,
  ])
    assert.match(texts, expected);
  assert.doesNotMatch(texts, /6\.6\.6\.6/);
  assert.deepEqual(notes, [
    'the last login was refused (right password, but too many connections). Ask the customer to close other sessions, or raise the limit of connections.',
    "left out: 1 connections that forged lines in sshd's log",
  ]);
  await berth.send('PATCH', `/directories/${id}/access`, { json: { suspended: true } });
  const [note] = (await explained('cust-42')).notes;
  assert.equal(note, 'nobody can log in: The directory is suspended. Resume it.');
  assert.deepEqual(
    events.map(({ at }) => at),
    events.map(({ at }) => at).toSorted(),
  );
  assert.ok(!texts.includes(directory.password) && !texts.includes(directory.secret));

  for (const name of [id, username, 'Acme Corp', 'acme-corp']) assert.equal((await explained(name)).directory.id, id);
  const { stdout } = await run(username);
  assert.match(
    stdout,
    new RegExp(`^${username}: Acme Corp \\(${id} of account \\S+\\)\nTIME +WHAT +ADDRESS +DETAILS\n`),
  );
  assert.match(stdout, /\n\S+Z +refused +127\.0\.0\.1 +Customer failed to log in: wrong password\n/);

  assert.equal((await berth.send('DELETE', `/directories/${id}`)).status, 204);
  for (const name of [id, username]) {
    const after = await explained(name);
    assert.equal(after.directory.id, id);
    assert.ok(after.events.some(({ text }) => text.startsWith('API key "test" deleted the directory')));
  }
});

test('it reports an unknown name, an ambiguous name, and a missing journal', async () => {
  await using berth = await shared();
  const { place } = berth;
  const { run } = explaining(berth);
  const unknown = await run('no\u001bbody');
  assert.deepEqual([unknown.status, unknown.stdout], [1, '']);
  assert.match(unknown.stderr, /^berth: berth knows no directory "no\\u001bbody": see berth directories\n$/);
  const { username } = await berth.directory({ name: 'Twin' });
  await berth.directory({ name: 'Twin' });
  assert.match((await run()).stderr, /^berth: give either a directory or --address IP/);
  assert.match((await run('--address', 'nowhere')).stderr, /It must be an IP address/);
  await assert.rejects(connect({ port: berth.sshd.port, username: 'acme', password: 'x' }));
  const mistyped = await run('acme');
  assert.match(
    mistyped.stdout,
    /^acme: no directory has this name\. In sshd's log:\n[^]*refused +127\.0\.0\.1 +Customer failed to log in: there is no user "acme"/,
  );
  assert.match(
    (await run('--address', '127.0.0.1')).stdout,
    /^From 127\.0\.0\.1, in sshd's log:\n[^]*there is no user "acme"/,
  );
  assert.match((await run('Twin')).stderr, /2 directories are called "Twin": use an id or username\n$/);
  const { status, stdout } = await runCommand({ ...place.environment, PATH: '/nowhere' }, 'explain', username);
  assert.equal(status, 0);
  assert.match(stdout, /\nNote: refused logins are missing: sshd's log is neither in the journal nor in a file here/);
  const late = { ...place.environment, PATH: `${journalOf(place.dir, '', Date.now())}:${process.env['PATH']}` };
  for (const what of [[username], ['--address', '127.0.0.1']])
    assert.match(
      (await runCommand(late, 'explain', ...what)).stdout,
      /\nNote: refused logins before 20\S+Z are missing: sshd's log here begins then\n/,
    );
  assert.doesNotMatch((await run(username)).stdout, /begins then/);
  assert.match((await run(username, '--limit', '1')).stdout, /\nNote: older entries are left out: --limit 1\n/);
});

const REFUSED = /^Customer (?:could not|was refused) /;

/** The requests that sshd has refused, and the notes about them. */
async function refusedIn({ explained }: ReturnType<typeof explaining>, id: string, count: number) {
  let found: Explained | undefined;
  const texts = () => (found?.events ?? []).filter(({ text }) => REFUSED.test(text)).map(({ text }) => text);
  await until('the refusals are known', async () => {
    found = await explained(id);
    return texts().length >= count;
  });
  return { texts: texts(), notes: found?.notes.filter((note) => REFUSED.test(note)) ?? [] };
}

test('requests that sshd refuses: which path, why, and what to do', async () => {
  await using berth = await shared();
  const explains = explaining(berth);
  const { id, login, files } = await berth.directory();
  mkdirSync(join(files, 'of-root'), { mode: 0o755 });
  writeFileSync(join(files, 'by-root'), 'x');
  {
    await using connection = await connect(login);
    const session = await rawSftp(connection);
    assert.equal(await session.put('/report.csv', 'data'), false);
    await session.open('missing/report.csv', CREATE_ANEW);
    await session.open('of-root/report.csv', CREATE_ANEW);
    await session.request(FXP.SETSTAT, 'by-root', 8, 1, 1);
    await session.rename('by-root', '/elsewhere');
    // None of these is news: clients ask like that all the time.
    await session.open('nothing', OPEN.read);
    await session.request(FXP.STAT, 'nothing');
    await session.request(FXP.OPENDIR, 'nothing');
    await session.request(FXP.MKDIR, 'of-root', 0);
    await session.open('by-root', CREATE_ANEW | OPEN.exclusive);
  }
  {
    await using connection = await connect(login);
    const session = await rawSftp(connection);
    await session.request(FXP.MKDIR, 'closed', 0);
    chmodSync(join(files, 'closed'), 0o555);
    await session.open('closed/report.csv', CREATE_ANEW);
    await session.open('n'.repeat(256), CREATE_ANEW);
    await session.open('of-root', CREATE_ANEW);
    await session.request(FXP.SYMLINK, 'by-root', 'link');
    chmodSync(join(files, 'of-root'), 0o700);
    await session.request(FXP.OPENDIR, 'of-root');
  }
  const { texts, notes } = await refusedIn(explains, id, 10);
  assert.deepEqual(texts, [
    'Customer could not write /report.csv: Permission denied (only what is in /files can be changed)',
    'Customer could not write missing/report.csv: No such file (its folder does not exist)',
    'Customer could not write of-root/report.csv: Permission denied (its folder belongs to root)',
    'Customer could not change by-root: Permission denied (it belongs to root)',
    'Customer could not rename by-root to /elsewhere: Permission denied (only what is in /files can be changed)',
    'Customer could not write closed/report.csv: Permission denied (its folder has the mode 0555)',
    `Customer could not write ${'n'.repeat(256)}: Bad message (a name has over 255 bytes)`,
    'Customer could not write of-root: Failure (a folder has this name)',
    'Customer was refused a request: Permission denied (symlink is not allowed)',
    'Customer could not list of-root: Permission denied (it belongs to root)',
  ]);
  assert.equal(notes.length, 7);
  assert.match(notes[0] ?? '', /^Customer could not list of-root: .* \(it belongs to root\)\. .*chown/);
  const { stdout } = await explains.run(id);
  assert.match(
    stdout,
    /\nNote: Customer could not rename by-root to \/elsewhere: .* remote folder to \/files\. WinSCP: .* FileZilla: .* OpenSSH: /,
  );
});

test('a flood of refused requests is a few rows of its own directory, and hostile names are shown safely', async () => {
  await using berth = await shared();
  const explains = explaining(berth);
  const [hostile, neighbour] = [await berth.directory(), await berth.directory()];
  const floods = Array.from({ length: 4 }, async () => {
    await using connection = await connect(hostile.login);
    const session = await rawSftp(connection);
    await session.open('/\u001b[31mred\n2026-11-22 file uploaded: its folder does not exist', CREATE_ANEW);
    for (let i = 0; i < 1000; i += 100)
      await Promise.all(Array.from({ length: 100 }, (_, j) => session.open(`/${i + j}`, CREATE_ANEW)));
  });
  await using connection = await connect(neighbour.login);
  const session = await rawSftp(connection);
  await session.open('/report.csv', CREATE_ANEW);
  await Promise.all(floods);
  assert.equal((await refusedIn(explains, neighbour.id, 1)).texts.length, 1);
  assert.ok(await session.put('after', 'data'));
  await until('the neighbour goes on', async () => (await berth.uploads(neighbour)).length === 1);
  const { texts, notes } = await refusedIn(explains, hostile.id, 20);
  assert.deepEqual([texts.length, notes.length], [20, 1]);
  const { stdout } = await explains.run(hostile.id);
  assert.ok(!stdout.includes('\u001b') && !stdout.includes('\n2026-11-22 file'));
  assert.ok(stdout.includes(String.raw`could not write /\u{1b}[31mred\u{a}2026-11-22 file uploaded: `));
});

test('a client that asks for an eleventh session in one connection', async () => {
  await using berth = await shared();
  const { explained } = explaining(berth);
  const [greedy, other] = [await berth.directory(), await berth.directory()];
  const notesOf = async ({ id }: typeof greedy): Promise<string> =>
    (await explained(id)).notes.filter((note) => note.includes('sessions open')).join();
  await using connection = await berth.connect(greedy);
  await using small = await berth.connect(other);
  await small.sftp();
  const asked = await Promise.allSettled(Array.from({ length: 12 }, () => connection.sftp()));
  assert.equal(asked.filter(({ status }) => status === 'rejected').length, 2);
  await until('explain says so', async () => (await notesOf(greedy)) !== '');
  assert.match(
    await notesOf(greedy),
    /^sshd has refused a session 2 times while this directory had 10 sessions open: a connection has at most 10\. /,
  );
  assert.equal(await notesOf(other), '');
});
