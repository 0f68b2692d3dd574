/** `berth account delete`: keys, directories, logins and files of an account go, with an audit; its neighbour notices nothing. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { apiClient } from '../support/api-client.ts';
import { issueKey } from '../support/berth.ts';
import { runCommand, runHere } from '../support/command-line.ts';
import { connect } from '../support/sftp-client.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('deleting an account deletes everything in it, and nothing else', async () => {
  await using berth = await shared();
  const { place } = berth;
  const [first, second] = [await berth.directory({ name: 'First' }), await berth.directory({ name: 'Second' })];
  using other = apiClient({
    port: berth.service().port,
    ca: readFileSync(berth.config.tls.cert),
    key: await issueKey(berth.config),
  });
  const made = await other.send('POST', '/directories', { json: { directory: { name: 'Theirs' } } });
  const theirs = (made.json as { data: { id: string; sftp_username: string; sftp_password: string } }).data;
  await using database = await opened(berth.config.database);
  const { accountId: id } = berth;
  const total = { owner_id: id, kind: 'storage', day: 0, count: 0, bytes: 4 } as const;
  await database.db.insertInto('daily_totals').values(total).execute();
  await using session = await connect(first.login);
  writeFileSync(join(first.files, 'data.csv'), 'data');
  const environment = { ...place.environment, SUDO_USER: 'alice' };
  const berthAccount = (...args: string[]) => runHere(environment, 'account', ...args);

  // Nobody is at a terminal here.
  const asked = await runCommand(environment, 'account', 'delete', id);
  assert.deepEqual([asked.status, asked.stdout], [1, '']);
  assert.match(asked.stderr, /there is no terminal to ask on: add --yes\n$/);
  assert.equal((await berth.send('GET', '/directories')).status, 200);
  assert.match((await berthAccount('delete', 'nobody', '--yes')).stderr, /^berth: there is no account "nobody"/);

  const { status, stdout, stderr } = await berthAccount('delete', id, '--yes', '--json');
  assert.equal(status, 0, stderr);
  const usernames = [first.username, second.username].toSorted();
  assert.deepEqual(JSON.parse(stdout), { id, name: 'Test', keys: 1, directories: usernames });
  await session.closed;
  assert.equal((await berth.send('GET', '/directories')).status, 401);
  for (const directory of [first, second]) {
    await assert.rejects(connect(directory.login));
    assert.ok(!existsSync(berth.sshd.paths.jail(directory.username)));
  }
  const left = [];
  for (const table of ['directories', 'api_keys'] as const)
    left.push(...(await database.db.selectFrom(table).select('id').where('account_id', '=', id).execute()));
  left.push(...(await database.db.selectFrom('accounts').select('id').where('id', '=', id).execute()));
  left.push(...(await database.db.selectFrom('daily_totals').select('kind').where('owner_id', '=', id).execute()));
  assert.deepEqual(left, []);
  const deletions = await database.db
    .selectFrom('audit')
    .select(['username', 'key_id', 'route'])
    .where('action', '=', 'delete')
    .orderBy('username')
    .execute();
  assert.deepEqual(
    deletions,
    usernames.map((username) => ({ username, key_id: 'operator:alice', route: 'berth account delete' })),
  );

  assert.equal((await other.send('GET', `/directories/${theirs.id}`)).status, 200);
  const { sftp_username: username, sftp_password: password } = theirs;
  await using _theirs = await connect({ port: berth.sshd.port, username, password });
  assert.match((await berthAccount('delete', id, '--yes')).stderr, /there is no account/);
});

test('without a service the command does nothing', async () => {
  await using berth = await shared();
  const { place } = berth;
  await using database = await opened(berth.config.database);
  const { accountId: id } = berth;
  await berth.stop();
  const { status, stderr } = await runHere(place.environment, 'account', 'delete', id, '--yes');
  assert.equal(status, 1);
  assert.match(stderr, /^berth: berth serve does not run here/);
  const accounts = database.db.selectFrom('accounts').select('deleted_at').where('id', '=', id);
  assert.deepEqual(await accounts.execute(), [{ deleted_at: null }]);
  await berth.start();
});

async function opened(file: string) {
  const database = await openDatabase(file);
  return Object.assign(database, { [Symbol.asyncDispose]: () => database.close() });
}
