/** Partial files: what operators and users see of them, announce and delete. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  readdirSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { afterLatecomers, startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { signedIn } from '../support/dashboard.ts';
import { questionIn } from '../support/directory-page.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { onDatabase } from '../support/users.ts';

interface Listed {
  readonly id: string;
  readonly filename: string;
  readonly size_bytes: number;
  readonly reason: string;
  readonly username: string;
}

async function partialPlace(place: Scratch) {
  const berth = await startBerth(place);
  const directory = await berth.directory();
  const run = (...words: string[]) => runHere({ ...place.environment, SUDO_USER: 'alice' }, 'partial', ...words);
  const list = async (...words: string[]): Promise<Listed[]> => {
    const { status, stdout, stderr } = await run('list', '--json', ...words);
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout) as Listed[];
  };
  return {
    berth,
    directory,
    run,
    list,
    /** A client's connection is cut in the middle of an upload. */
    async cutOff(name: string, data = 'half'): Promise<string> {
      const connection = await berth.connect(directory);
      const session = await sftpSession(connection);
      await session.write(await session.open(name, 'w'), data);
      connection.drop();
      const partial = () =>
        onDatabase(berth, ({ reads }) =>
          reads
            .selectFrom('files')
            .select('id')
            .where('path', '=', Buffer.from(name))
            .where('state', '=', 'partial')
            .executeTakeFirst(),
        );
      await until('it is partial', async () => (await partial()) !== undefined);
      const found = (await list()).find(({ filename }) => filename === name);
      assert.equal(found?.id, (await partial())?.id);
      return found?.id ?? '';
    },
    async rows() {
      const database = await openDatabase(berth.config.database);
      const uploaded = await database.db
        .selectFrom('transfers')
        .select('path')
        .where('event', '=', 'uploaded')
        .execute();
      const audit = await database.db.selectFrom('audit').select(['action', 'key_id']).orderBy('id').execute();
      await database.close();
      const changes = audit.map(({ action, key_id }) => `${action} ${key_id}`);
      return {
        uploaded: uploaded.map(({ path }) => path),
        changes: changes.filter((text) => /partial|remove/.test(text)),
      };
    },
    [Symbol.asyncDispose]: () => berth[Symbol.asyncDispose](),
  };
}

async function listed(berth: TestBerth, directory: TestDirectory): Promise<string[]> {
  return (await berth.uploads(directory)).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`);
}

void describe('unfinished files', { concurrency: 3 }, () => {
  test('a file that was cut off is listed with its reason, and announced by an operator as an upload of that moment', async () => {
    using place = scratch();
    await using at = await partialPlace(place);
    const { berth, directory } = at;
    const before = new Date().toISOString();
    const id = await at.cutOff('report.csv');
    assert.deepEqual(await listed(berth, directory), []);
    const [file] = await at.list('--directory', directory.username);
    assert.deepEqual(
      [file?.id, file?.filename, file?.size_bytes, file?.username],
      [id, 'report.csv', 4, directory.username],
    );
    assert.equal(file?.reason, 'the session from 127.0.0.1 was cut off while writing it');
    const explained = await runHere(place.environment, 'explain', directory.username);
    assert.match(
      explained.stdout,
      new RegExp(`Note: "report.csv" .*partial: the session .* berth partial announce ${id}`),
    );

    const { status, stdout, stderr } = await at.run('announce', id);
    assert.deepEqual([status, stdout], [0, `Announced report.csv (4 bytes) of ${directory.username}\n`], stderr);
    const hook = webhookOf(await berth.receiver.next());
    assert.deepEqual([hook.filename, hook.size_bytes], ['report.csv', 4]);
    const [upload] = await berth.uploads(directory);
    assert.deepEqual([upload?.filename, upload?.uploaded_at], ['report.csv', hook.uploaded_at]);
    assert.ok((upload?.uploaded_at ?? '') > before);
    assert.equal(await berth.storage(directory), 4);
    assert.deepEqual(await at.rows(), { uploaded: ['report.csv'], changes: ['announce-partial operator:alice'] });
    assert.deepEqual(await at.list(), []);

    const again = await at.run('announce', id);
    assert.equal(again.status, 1);
    assert.match(again.stderr, /there is no such partial file/);
    assert.equal(berth.receiver.requests.length, 1);
  });

  test('a file that an administrator touches stays partial; the command announces it, and so does a session that sends it again', async () => {
    using place = scratch();
    await using at = await partialPlace(place);
    const { berth, directory } = at;
    const touched = await at.cutOff('touched');
    const sentAgain = await at.cutOff('sent again');
    for (const name of ['touched', 'sent again']) {
      const path = join(directory.files, name);
      utimesSync(path, new Date(), new Date());
      await wait(100);
      chmodSync(path, 0o640);
    }
    await afterLatecomers(berth);
    assert.equal(berth.receiver.requests.length, 0);
    assert.deepEqual((await at.list()).map(({ id }) => id).toSorted(), [touched, sentAgain].toSorted());
    await using connection = await berth.connect(directory);
    await (await sftpSession(connection)).put('sent again', 'full');
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'sent again');
    const { status, stderr } = await at.run('announce', touched);
    assert.equal(status, 0, stderr);
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'touched');
    assert.deepEqual(await at.list(), []);
  });

  test('a deleted file disappears from disk, list and sums; one refusal does not stop the other deletions', async () => {
    using place = scratch();
    await using at = await partialPlace(place);
    const { berth, directory } = at;
    const ids = [await at.cutOff('one'), await at.cutOff('two')];
    const asked = await at.run('delete', ...ids);
    assert.deepEqual([asked.status, (await at.list()).length], [1, 2], 'without --yes nobody can be asked');
    const { status, stdout, stderr } = await at.run('delete', '--yes', 'unknown', ...ids);
    assert.equal(status, 1);
    assert.match(stderr, /^berth: unknown: there is no such partial file/m);
    assert.equal(stdout.match(/^Deleted /gm)?.length, 2);
    assert.deepEqual(readdirSync(directory.files), []);
    assert.equal(await berth.storage(directory), 0);
    const change = 'remove-file operator:alice';
    assert.deepEqual(await at.rows(), { uploaded: [], changes: [change, change] });
    assert.equal(berth.receiver.requests.length, 0);
  });

  test('neither is done while a session writes the file; resumed and closed, it is an upload', async () => {
    using place = scratch();
    await using at = await partialPlace(place);
    const { berth, directory } = at;
    const id = await at.cutOff('report.csv');
    await using connection = await berth.connect(directory);
    const session = await sftpSession(connection);
    const handle = await session.open('report.csv', 'r+');
    for (const words of [
      ['announce', id],
      ['delete', '--yes', id],
    ]) {
      const { status, stderr } = await at.run(...words);
      assert.equal(status, 1);
      assert.match(stderr, /The file is being written/);
    }
    await session.write(handle, ' and whole', 4);
    await session.close(handle);
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 14);
    assert.deepEqual([await listed(berth, directory), await at.list()], [['report.csv 14'], []]);
    const { status } = await at.run('announce', id);
    assert.equal(status, 1);
    assert.equal(berth.receiver.requests.length, 1);
  });

  test('neither is done to a file that is not the one that was left, nor through a link', async () => {
    using place = scratch();
    await using at = await partialPlace(place);
    const { directory } = at;
    const secret = join(place.dir, 'secret');
    writeFileSync(secret, 'half');
    const id = await at.cutOff('report.csv');
    const file = join(directory.files, 'report.csv');
    appendFileSync(file, ' more');
    const refused = async (words: RegExp): Promise<void> => {
      for (const command of [
        ['announce', id],
        ['delete', '--yes', id],
      ]) {
        const { status, stderr } = await at.run(...command);
        assert.equal(status, 1);
        assert.match(stderr, words);
      }
    };
    // On a slow machine the comparison with the disk sees it before the command does.
    await refused(/The file has changed|there is no such partial file|There is no partial file of that id/);
    unlinkSync(file);
    symlinkSync(secret, file);
    await refused(
      /The file (has changed|no longer exists)|there is no such partial file|There is no partial file of that id/,
    );
    assert.ok(existsSync(secret));
    unlinkSync(file);
    // Its row goes in a while, too.
    await refused(/The file no longer exists|there is no such partial file|There is no partial file of that id/);
  });

  test('the Files page shows what was not finished, and marks it complete or deletes it after a question', async () => {
    using place = scratch({ BERTH_DASHBOARD: 'on' });
    await using at = await partialPlace(place);
    const { berth, directory } = at;
    using user = await signedIn(
      { config: berth.config, port: berth.service().dashboardPort ?? 0 },
      berth.accountId,
      'member',
    );
    const path = `/dashboard/directories/${directory.id}`;
    assert.doesNotMatch((await user.get(`${path}/files`)).text, /did not finish/);
    const [one, two] = [await at.cutOff('<b>one'), await at.cutOff('two')];
    const { text } = await user.get(`${path}/files`);
    assert.match(text, /<h2>2 uploads did not finish<\/h2>.*&lt;b&gt;one.*connection from 127\.0\.0\.1 lost/s);
    assert.match(text, new RegExp(`action="partial/${one}/announce".*action="partial/${one}/delete"`, 's'));

    const ask = (action: string, label: string) =>
      user.post(`${path}/partial/${action}`, questionIn(text, label, action.startsWith(one) ? '<b>one' : 'two'));
    const question = await ask(`${one}/announce`, 'Mark complete');
    assert.match(question.text, /Mark complete: &lt;b&gt;one/);
    assert.equal((await listed(berth, directory)).length, 0, 'it was only asked');
    const announced = await user.post(`${path}/partial/${one}/announce`, {});
    assert.equal(announced.status, 303);
    assert.match((await user.get(String(announced.headers['location']))).text, /Marked complete\. Its webhook/);
    assert.equal(webhookOf(await berth.receiver.next()).filename, '<b>one');
    assert.match((await ask(`${two}/delete`, 'Delete')).text, /Delete: .*This can’t be undone/s);
    assert.equal((await user.post(`${path}/partial/${two}/delete`, {})).status, 303);
    assert.deepEqual(await listed(berth, directory), ['<b>one 4']);
    assert.equal((await user.post(`${path}/partial/${two}/announce`, {})).status, 404);
    assert.equal((await user.post(`${path}/partial/${two}/delete`, {})).status, 404);
    assert.doesNotMatch((await user.get(`${path}/files`)).text, /did not finish/);

    using stranger = await signedIn(
      { config: berth.config, port: berth.service().dashboardPort ?? 0 },
      berth.accountId,
      'member',
    );
    assert.equal((await stranger.post(`${path.slice(0, -1)}0/partial/${one}/announce`, {})).status, 404);
  });

  test('by the API: listed where they are asked for, announced once, deleted, all for admin keys', async () => {
    using place = scratch();
    await using at = await partialPlace(place);
    const { berth, directory } = at;
    const directoryPath = `/directories/${directory.id}`;
    const events = { json: { events: ['file.uploaded', 'upload.failed'] } };
    assert.equal((await berth.send('PUT', `${directoryPath}/webhook/events`, events)).status, 200);
    const [kept, dropped] = [await at.cutOff('kept.csv'), await at.cutOff('dropped.csv', 'hal')];
    const files = async (query: string) => {
      const { status, json } = await berth.send('GET', `${directoryPath}/files${query}`);
      assert.equal(status, 200, JSON.stringify(json));
      return (json as { data: Record<string, unknown>[] }).data.map((file) => ({ ...file, modified_at: '' }));
    };
    const partial = (id: string, path: string, size_bytes: number) => {
      return { id, path, size_bytes, state: 'partial', upload_id: null, modified_at: '' };
    };
    assert.deepEqual(await files(''), []);
    assert.deepEqual(await files('?state=uploaded,placed'), []);
    const both = [partial(dropped, 'dropped.csv', 3), partial(kept, 'kept.csv', 4)];
    assert.deepEqual(await files('?state=partial'), both);
    assert.deepEqual(await files('?state=uploaded,partial&prefix=kept'), both.slice(1));
    assert.equal((await berth.send('GET', `${directoryPath}/files?state=lost`)).status, 422);
    const feed = (await berth.send('GET', '/events')).json as { data: { event: string; data: { filename: string } }[] };
    assert.deepEqual(
      feed.data.map(({ event, data }) => [event, data.filename]),
      [
        ['upload.failed', 'kept.csv'],
        ['upload.failed', 'dropped.csv'],
      ],
    );

    const made = await berth.send('POST', '/api_keys', { json: { name: 'm', role: 'member' } });
    const authorization = `Bearer ${(made.json as { data: { key: string } }).data.key}`;
    const member = { authorization };
    assert.equal((await berth.send('POST', `${directoryPath}/partial/${kept}/announce`, member)).status, 403);
    assert.equal((await berth.send('DELETE', `${directoryPath}/partial/${kept}`, member)).status, 403);

    const announce = () =>
      berth.send('POST', `${directoryPath}/partial/${kept}/announce`, { headers: { 'idempotency-key': 'once' } });
    const announced = await announce();
    const { data: upload } = announced.json as { data: Record<string, unknown> };
    assert.match(String(upload['uploaded_at']), /Z$/);
    delete upload['uploaded_at'];
    assert.deepEqual(
      [announced.status, upload],
      [200, { id: kept, filename: 'kept.csv', size_bytes: 4, state: 'uploaded' }],
    );
    assert.equal((await announce()).text, announced.text);
    assert.equal((await berth.send('POST', `${directoryPath}/partial/${kept}/announce`)).status, 404);
    assert.equal((await berth.send('DELETE', `${directoryPath}/partial/${dropped}`)).status, 204);
    assert.deepEqual(await files('?state=partial'), []);
    assert.equal(await berth.storage(directory), 4);
    assert.deepEqual(await listed(berth, directory), ['kept.csv 4']);
    assert.deepEqual((await at.rows()).uploaded, ['kept.csv']);
  });
});
