/** `berth explain` for a customer after a full day: logins, refusals, files, webhooks, changes and the deletion. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { historyOf, type TestBerth } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { journalOf } from '../support/journal.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { connect } from '../support/sftp-client.ts';
import { sharedBerth } from '../support/shared-berth.ts';
import { writeFileSync } from 'node:fs';
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
    /^change: directory created by key test \(request \S+\)$/m,
    /^change: changed by key test \(request \S+\): webhook_url: null -> "http:\/\/127\.0\.0\.1:\d+"$/m,
    /^session: session begins$/m,
    /^file: uploaded report\.csv \(4 bytes\)$/m,
    /^webhook: report\.csv to http:\/\/\S+ \(delivery \S+\): attempt 1, answered 500 after [\d.]+ m?s$/m,
    /^webhook: report\.csv to http:\/\/\S+ \(delivery \S+\): attempt [2-4] is due$/m,
    /^session: session ends after /m,
    /^login: by password$/m,
    /^refused: wrong password$/m,
    /^refused: right password, but too many connections$/m,
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
  assert.match(stdout, /\n\S+Z +refused +127\.0\.0\.1 +wrong password\n/);

  assert.equal((await berth.send('DELETE', `/directories/${id}`)).status, 204);
  for (const name of [id, username]) {
    const after = await explained(name);
    assert.equal(after.directory.id, id);
    assert.ok(after.events.some(({ text }) => text.startsWith('directory deleted by key test')));
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
    /^acme: no directory has this name\. In sshd's log:\n[^]*refused +127\.0\.0\.1 +there is no user "acme"/,
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
