/** Suspension, expiry, networks and new passwords, as SFTP users meet them. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import type { TestBerth, TestDirectory } from '../support/berth.ts';
import { dataOf } from '../support/field-sets.ts';
import { sftp } from '../support/openssh-client.ts';
import { until } from '../support/poll.ts';
import { connect, type Credentials } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { keyPair } from '../support/sftp-user.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth({}, { sftpAddresses: ['127.0.0.1', '::1'] });

async function set(berth: TestBerth, { id }: TestDirectory, access: object): Promise<void> {
  const { status, text } = await berth.send('PATCH', `/directories/${id}/access`, { json: access });
  assert.equal(status, 200, text);
}

async function opens(login: Credentials): Promise<boolean> {
  try {
    await using connection = await connect(login);
    await connection.sftp();
    return true;
  } catch {
    return false;
  }
}

test('suspended: live sessions have ended with the answer and nobody gets in; resumed: exactly what the mode allows', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const neighbour = await berth.directory({ name: 'Neighbour' });
  const { place } = berth;
  const { port, username } = directory.login;
  const key = keyPair(place.dir);
  const byKey = { port, username, privateKey: key.privateKey };
  const auth = { auth_mode: 'both', public_key: key.publicKey };
  await berth.send('PATCH', `/directories/${directory.id}`, { json: { directory: auth } });
  await using beside = await berth.connect(neighbour);
  await using live = await berth.connect(directory);
  await (await sftpSession(live)).put('kept', 'data');
  await berth.receiver.next();

  await set(berth, directory, { suspended: true });
  await live.closed;
  assert.deepEqual([await opens(directory.login), await opens(byKey)], [false, false]);
  const { output } = await sftp(place.dir, directory.login, ['pwd']);
  assert.doesNotMatch(output, /suspend/i);
  assert.match(berth.sshd.output(), new RegExp(`^Login of ${username} from 127\\.0\\.0\\.1 refused: suspended$`, 'm'));
  assert.ok(existsSync(`${directory.files}/kept`));
  assert.equal((await berth.uploads(directory)).length, 1);
  await (await sftpSession(beside)).put('theirs', 'data');

  // A restart changes nothing of it.
  await berth.stop();
  assert.equal(await opens(directory.login), false);
  await berth.start();
  await berth.service().covered;
  assert.equal(await opens(directory.login), false);

  await set(berth, directory, { suspended: false });
  assert.deepEqual([await opens(directory.login), await opens(byKey)], [true, true]);
  await berth.send('PATCH', `/directories/${directory.id}`, { json: { directory: { auth_mode: 'public_key' } } });
  await set(berth, directory, { suspended: true });
  await set(berth, directory, { suspended: false });
  assert.deepEqual([await opens(directory.login), await opens(byKey)], [false, true]);
});

test('logins that race a suspension: none is left in when it is answered', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  for (let round = 0; round < 3; round += 1) {
    await set(berth, directory, { suspended: false });
    const attempts = Array.from({ length: 6 }, () => connect(directory.login));
    const settled = Promise.allSettled(attempts);
    await Promise.race(attempts);
    await set(berth, directory, { suspended: true });
    for (const attempt of await settled) if (attempt.status === 'fulfilled') await attempt.value.closed;
  }
});

test('expired: sessions end at that time, also when berth was down then; a later time opens it again', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const inOneSecond = (): string => new Date(Date.now() + 1000).toISOString();
  await using first = await berth.connect(directory);
  await set(berth, directory, { expires_at: inOneSecond() });
  await first.closed;
  assert.equal(await opens(directory.login), false);
  assert.match(
    berth.sshd.output(),
    new RegExp(`^Login of ${directory.username} from 127\\.0\\.0\\.1 refused: expired$`, 'm'),
  );

  await set(berth, directory, { expires_at: null });
  await using second = await berth.connect(directory);
  await set(berth, directory, { expires_at: inOneSecond() });
  await berth.stop();
  await until('it lets nobody in while berth is down', async () => !(await opens(directory.login)));
  await (await sftpSession(second)).put('while-down', 'data');
  await berth.start();
  await second.closed;
  await set(berth, directory, { expires_at: '2099-01-01T00:00:00Z' });
  assert.equal(await opens(directory.login), true);
});

test('allowed_networks: passwords and keys work only from there, from the next login on', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const { login, username } = directory;
  const from = (localAddress: string) => opens({ ...login, localAddress });
  const byIpv6 = () => opens({ ...login, host: '::1' });
  const hasIpv6 = await byIpv6();
  await using live = await connect({ ...login, localAddress: '127.0.0.9' });
  // Which address is in which network: test/unit/openssh/admission.test.ts.
  const cases: [string[], boolean, boolean, boolean][] = [
    [['127.0.0.4/30'], false, true, false],
    [['::1'], false, false, true],
    [[...Array.from({ length: 99 }, (_, index) => `2001:db8:${index}::/48`), '127.0.0.1'], true, false, false],
    [[], true, true, true],
  ];
  for (const [allowed_networks, one, five, ipv6] of cases) {
    await set(berth, directory, { allowed_networks });
    const got = [await from('127.0.0.1'), await from('127.0.0.5'), ...(hasIpv6 ? [await byIpv6()] : [])];
    assert.deepEqual(got, [one, five, ...(hasIpv6 ? [ipv6] : [])], allowed_networks.join());
  }
  const words = `^Login of ${username} from 127\\.0\\.0\\.1 refused: not from an allowed network$`;
  assert.match(berth.sshd.output(), new RegExp(words, 'm'));
  await (await sftpSession(live)).put('live', 'data');
});

test('a new password counts from the next login on, the old one never again, and a live session goes on', async () => {
  await using berth = await shared();
  const { id, login } = await berth.directory();
  await using connection = await connect(login);
  const live = await sftpSession(connection);
  const letsIn = (password: string) => opens({ ...login, password });

  const answer = await berth.send('POST', `/directories/${id}/password`);
  const { sftp_password } = dataOf<{ sftp_password: string }>(answer);
  assert.deepEqual([await letsIn(login.password), await letsIn(sftp_password)], [false, true]);
  await live.put('still-here', 'data');

  const mode = async (auth_mode: string) =>
    berth.send('PATCH', `/directories/${id}`, { json: { directory: { auth_mode } } });
  await mode('public_key');
  const kept = dataOf<{ sftp_password: string }>(await berth.send('POST', `/directories/${id}/password`));
  assert.deepEqual([await letsIn(sftp_password), await letsIn(kept.sftp_password)], [false, false]);
  await mode('password');
  assert.deepEqual([await letsIn(sftp_password), await letsIn(kept.sftp_password)], [false, true]);
});
