/** Links for people without an SFTP client, over real HTTPS, beside a real sshd. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { DAY, systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { afterLatecomers, historyOf, startBerth, webhookOf } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { ask, downloadLink, form, inTransit, open, put, soon, uploadLink } from '../support/links.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('an upload by link is an upload: on the disk, announced once, with its link in the history; by PUT and by a plain form', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  const before = await ask(berth, '/links/none/a');
  assert.equal(before.status, 403);
  const reversed = await uploadLink(berth, directory, 'a\u202efdp.exe');
  const shown = await ask(berth, reversed, { headers: { accept: 'text/html' } });
  assert.match(shown.text, /<bdi>aU\+202Efdp\.exe<\/bdi>/);
  const link = await uploadLink(berth, directory, 'in/ä report.pdf', { once: true });

  const page = await ask(berth, link, { headers: { accept: 'text/html' } });
  assert.equal(page.status, 200);
  assert.match(page.text, /<form\s+method="post"\s+enctype="multipart\/form-data"/);
  assert.match(page.text, /Test<\/bdi> asks you for a file/);
  assert.match(page.text, /ä report\.pdf/);
  assert.doesNotMatch(page.text, /in\//, 'no folder is named');
  assert.doesNotMatch(page.text, /(?:src|href)=/, 'nothing is fetched from anywhere');
  const policy = String(page.headers['content-security-policy']);
  assert.match(policy, /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-/);
  assert.deepEqual(
    ['x-content-type-options', 'referrer-policy', 'cache-control', 'x-frame-options', 'set-cookie'].map(
      (name) => page.headers[name],
    ),
    ['nosniff', 'no-referrer', 'no-store', 'DENY', undefined],
  );

  const content = Buffer.concat([randomBytes(200_000), Buffer.from('\r\n------WebKitFormBoundaryab\r\n--')]);
  const sent = await ask(berth, link, form(content));
  assert.equal(sent.status, 201);
  assert.match(sent.text, /has received your/);
  assert.match(String(sent.headers['content-type']), /^text\/html/);
  assert.ok(readFileSync(join(directory.files, 'in/ä report.pdf')).equals(content));
  const hook = await berth.receiver.next();
  const { event, filename, size_bytes } = webhookOf(hook);
  assert.deepEqual([event, filename, size_bytes], ['file.uploaded', 'in/ä report.pdf', content.length]);
  assert.doesNotMatch(hook.body.toString(), /link|via/);
  assert.equal((await berth.uploads(directory)).length, 1);
  assert.equal(await berth.storage(directory), content.length);

  const often = await uploadLink(berth, directory, 'often.txt');
  // The second as .NET's MultipartFormDataContent writes it.
  const names = "name=file; filename=a.csv; filename*=utf-8''a.csv";
  const others = {
    one: { method: 'PUT', body: 'one' },
    forms: { ...form('forms'), method: 'PUT', headers: { 'content-type': String(form('').headers?.['content-type']) } },
    three: {
      method: 'POST',
      body: `--b\r\nContent-Disposition: form-data; name=by\r\n\r\nJane\r\n--b\r\nContent-Disposition: form-data; ${names}\r\n\r\nthree\r\n--b--\r\n`,
      headers: { 'content-type': 'multipart/form-data; boundary="b"' },
    },
  };
  for (const [body, each] of Object.entries(others)) {
    const { status, text } = await ask(berth, often, each);
    const { received_at, ...receipt } = (JSON.parse(text) as { data: Record<string, unknown> }).data;
    assert.deepEqual([status, receipt], [201, { filename: 'often.txt', size_bytes: body.length }]);
    assert.match(String(received_at), /^\d{4}-\d\d-\d\dT/);
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, body.length);
  }
  const { stdout } = await runHere(
    place.environment,
    'transfers',
    '--directory',
    directory.id,
    '--event',
    'uploaded',
    '--json',
  );
  const rows = JSON.parse(stdout) as Record<string, unknown>[];
  assert.deepEqual(
    rows.map(({ via, address }) => `${String(via)} ${String(address)}`),
    Array(4).fill('link 127.0.0.1'),
  );
  await afterLatecomers(berth);
  assert.equal(berth.receiver.requests.length, 4, 'and never again');
  await berth.stop();
  await berth.start();
  await berth.service().covered;
  await afterLatecomers(berth);
  assert.equal(berth.receiver.requests.length, 4, 'nor after a restart');
  assert.deepEqual(inTransit(berth), []);
  assert.equal((await put(berth, link, 'x')).status, 410, 'a restart forgets no use');
});

test('every refusal: nothing is left on the disk, and nothing is announced', async (t) => {
  await using berth = await shared();
  const directory = await berth.directory();
  const other = await berth.directory({ name: 'Other' });
  const link = await uploadLink(berth, directory, 'in/file');
  const download = await downloadLink(berth, directory, 'in/file');
  const [, , token = ''] = link.split('/');
  const wrong: [string, string, number][] = [
    ['no token', '/links/in/file', 403],
    ['another token', `/links/${'A'.repeat(32)}/file`, 403],
    ['a shorter token', link.replace(token, token.slice(1)), 403],
    ['another case', link.replace(token, token.toLowerCase()), 403],
    ['another name', link.replace('/file', '/other'), 403],
    ['no name', link.replace('/file', '/'), 403],
    ['a path above', link.replace('/file', '/../file'), 403],
    ['a path above, encoded', link.replace('/file', '/%2e%2e%2ffile'), 403],
    ['a path below', link.replace('/file', '/file/file'), 403],
    ['a zero byte', link.replace('/file', '/file%00'), 403],
    ['a download’s', download, 405],
  ];
  for (const [name, path, status] of wrong)
    await t.test(name, async () => {
      const answer = await put(berth, path, 'data');
      assert.equal(answer.status, status, answer.text);
      if (status === 403) assert.equal((await ask(berth, path)).status, 403);
    });
  assert.equal((await put(berth, `${link.replace('/file', '/%66ile')}?utm=x`, 'data')).status, 201, 'the same name');
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'in/file');

  await t.test('too large, as announced or as counted', async () => {
    const small = await uploadLink(berth, directory, 'small', { max_bytes: 10 });
    assert.equal((await put(berth, small, 'x'.repeat(11))).status, 413);
    const chunked = await ask(berth, small, { ...form('x'.repeat(11)), headers: { ...form('').headers } });
    assert.equal(chunked.status, 413);
    assert.match(chunked.text, /too large\. The limit is 10 bytes/);
    assert.equal((await put(berth, small, 'x'.repeat(10))).status, 201);
    assert.equal(webhookOf(await berth.receiver.next()).filename, 'small');
  });
  await t.test('over the quota, alone or together with simultaneous uploads', async () => {
    // The kernel of this machine may have no quotas, and may exempt root: berth counts too.
    const { id } = directory;
    const limitTo = async (quota_bytes: number | null): Promise<void> => {
      const database = await openDatabase(berth.config.database);
      await database.db.updateTable('directories').set({ quota_bytes }).where('id', '=', id).execute();
      await database.close();
    };
    const [content, before] = ['x'.repeat(1000), await berth.storage(directory)];
    await limitTo(before + 999);
    assert.equal((await put(berth, await uploadLink(berth, directory, 'over'), content)).status, 507);
    await limitTo(before + 2999);
    const folder = await uploadLink(berth, directory, 'together/');
    const byLink = [1, 2, 3, 4].map((name) => put(berth, `${folder}${name}`, content));
    const byKey = [5, 6, 7, 8].map((name) => berth.send('PUT', `/directories/${id}/files/${name}`, { body: content }));
    const answers = await Promise.all([...byLink, ...byKey]);
    const taken = answers.map(({ status }) => status === 201);
    assert.equal(answers.filter(({ status }) => status === 507).length, 6);
    assert.equal(taken.filter(Boolean).length, 2);
    assert.equal(await berth.storage(directory), before + 2000);
    for (const isTaken of taken.slice(0, byLink.length)) if (isTaken) await berth.receiver.next();
    await limitTo(null);
  });
  await t.test('links and folders in the jail', async () => {
    symlinkSync('/etc', join(directory.files, 'away'));
    symlinkSync('/etc/passwd', join(directory.files, 'passwd'));
    for (const path of ['away/berth-test', 'passwd', 'in']) {
      const refused = await put(berth, await uploadLink(berth, directory, path), 'x');
      assert.equal(refused.status, 409, path);
      assert.match(refused.text, /The file cannot be stored/, 'it names no folder');
      const got = await ask(berth, await downloadLink(berth, directory, path));
      assert.equal(got.status, 404, path);
    }
    assert.equal(existsSync('/etc/berth-test'), false);
  });
  await t.test('broken and empty forms', async () => {
    const to = await uploadLink(berth, directory, 'broken');
    const whole = form('data');
    const cut = { ...whole, body: (whole.body as Buffer).subarray(0, -10) };
    assert.equal((await ask(berth, to, cut)).status, 400);
    const empty = await ask(berth, to, form('', ''));
    assert.deepEqual([empty.status, /Choose a file first/.test(empty.text)], [400, true]);
    assert.equal(
      (
        await ask(berth, to, {
          method: 'POST',
          body: 'file=x',
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
        })
      ).status,
      415,
    );
    assert.equal((await ask(berth, to, { ...form('x'), body: Buffer.alloc(20_000, 'x') })).status, 400);
    assert.equal(existsSync(join(directory.files, 'broken')), false);
  });
  await t.test('suspended, expired and out of the networks', async () => {
    const to = await uploadLink(berth, directory, 'closed');
    const access = (json: object) => berth.send('PATCH', `/directories/${directory.id}/access`, { json });
    for (const [shut, opened] of [
      [{ suspended: true }, { suspended: false }],
      [{ expires_at: '2020-01-01T00:00:00Z' }, { expires_at: null }],
      [{ allowed_networks: ['192.0.2.0/24'] }, { allowed_networks: [] }],
    ] as const) {
      await access(shut);
      assert.equal((await put(berth, to, 'x')).status, 403, JSON.stringify(shut));
      assert.equal((await ask(berth, download)).status, 403);
      await access(opened);
    }
    assert.equal((await put(berth, to, 'x')).status, 201);
    await berth.receiver.next();
  });
  await t.test('revoked while the file was coming, and deleted', async () => {
    const outgoing = open(berth, link, { method: 'PUT', headers: { 'content-length': '10' } });
    outgoing.write('12345');
    await until('it is coming', async () => inTransit(berth).length > 0);
    assert.equal((await berth.send('DELETE', `/directories/${directory.id}/links`)).status, 204);
    outgoing.end('67890');
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    assert.equal(incoming.statusCode, 403);
    incoming.resume();
    assert.equal(readFileSync(join(directory.files, 'in/file'), 'utf8'), 'data');
    assert.equal((await ask(berth, download)).status, 403);
    const last = await downloadLink(berth, directory, 'in/file');
    assert.equal((await ask(berth, last)).text, 'data');
    await berth.send('DELETE', `/directories/${directory.id}`);
    assert.equal((await ask(berth, last)).status, 403);
  });
  assert.deepEqual(inTransit(berth), []);
  assert.deepEqual(await berth.uploads(other), []);
});

test('a link that has expired refuses, also when its file was on the way', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  let ahead = 0;
  const clock = { now: () => systemClock().now() + ahead };
  await berth.stop();
  await berth.start(clock, { isConfirmed: false });
  const link = await uploadLink(berth, directory, 'late', { once: true });
  const outgoing = open(berth, link, { method: 'PUT', headers: { 'content-length': '4' } });
  outgoing.write('da');
  await until('it is coming', async () => inTransit(berth).length > 0);
  ahead = DAY;
  outgoing.end('ta');
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  assert.equal(incoming.statusCode, 410);
  incoming.resume();
  assert.equal((await ask(berth, link)).status, 410);
  assert.deepEqual([readdirSync(directory.files), inTransit(berth)], [[], []]);
});

test('a download: attachment, ranges, resumed by the same link; once means until its last byte is out', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  const content = randomBytes(8_000_000);
  writeFileSync(join(directory.files, 'big "1".bin'), content);
  await berth.receiver.next();
  const link = await downloadLink(berth, directory, 'big "1".bin', { once: true });
  const head = await ask(berth, link, { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers['content-length']], [200, '8000000']);
  assert.match(String(head.headers['content-disposition']), /^attachment; filename="big _1_\.bin"/);
  assert.match(String(head.headers['content-security-policy']), /default-src 'none'; sandbox/);
  assert.equal(head.headers['x-content-type-options'], 'nosniff');
  const part = await ask(berth, link, { headers: { range: 'bytes=0-99' } });
  assert.deepEqual([part.status, part.bytes.equals(content.subarray(0, 100))], [206, true]);

  // One that is cut off is resumed.
  const cut = open(berth, link);
  cut.end();
  const [incoming] = (await once(cut, 'response')) as [IncomingMessage];
  await once(incoming, 'data');
  const meanwhile = await ask(berth, link);
  assert.equal(meanwhile.status, 410, 'one at a time');
  cut.on('error', () => undefined);
  incoming.on('error', () => undefined);
  cut.destroy();
  const rest = { headers: { range: 'bytes=100-', 'if-range': String(head.headers['etag']) } };
  let resumed = await ask(berth, link, rest);
  for (let tries = 0; resumed.status === 410 && tries < 50; tries += 1) {
    await wait(50);
    resumed = await ask(berth, link, rest);
  }
  assert.deepEqual([resumed.status, resumed.bytes.equals(content.subarray(100))], [206, true]);
  assert.equal((await ask(berth, link)).status, 410);

  const both = await downloadLink(berth, directory, 'big "1".bin', { once: true });
  const answers = await Promise.all([ask(berth, both), ask(berth, both)]);
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 410],
  );
  const often = await downloadLink(berth, directory, 'big "1".bin');
  assert.equal((await put(berth, often, 'x')).status, 405);
  for (const _ of [1, 2]) assert.equal((await ask(berth, often)).bytes.length, content.length);
  assert.equal((await ask(berth, often, { headers: { range: 'bytes=8000000-' } })).status, 416);
  await until('they are in the history', async () => {
    const history = await historyOf(berth, directory);
    return history.filter((event) => event === 'downloaded').length >= 4;
  });
  const of = ['--directory', directory.id, '--event', 'downloaded'];
  const { stdout } = await runHere(place.environment, 'transfers', ...of, '--json');
  assert.deepEqual(
    (JSON.parse(stdout) as { via: unknown }[]).map(({ via }) => via),
    Array(4).fill('link'),
  );
  assert.equal((await ask(berth, await downloadLink(berth, directory, 'none'))).status, 404);
});

test('a single-use upload link: of two uploads at once one is accepted, and no file is replaced', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const link = await uploadLink(berth, directory, 'f', { once: true });
  const answers = await Promise.all([put(berth, link, 'first'), put(berth, link, 'other')]);
  const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
  assert.equal(statuses[0], 201);
  assert.ok(statuses[1] === 410 || statuses[1] === 412, String(statuses));
  await berth.receiver.next();
  const again = await uploadLink(berth, directory, 'f', { once: true });
  assert.equal((await put(berth, again, 'new')).status, 412, 'something is there');
  const id = (await berth.uploads(directory))[0]?.id;
  assert.equal((await berth.send('DELETE', `/directories/${directory.id}/uploads/${id}`)).status, 204);
  assert.equal((await put(berth, again, 'new')).status, 201, 'refused requests did not use it');
  assert.equal((await put(berth, link, 'x')).status, 410);
  await berth.receiver.next();
  await afterLatecomers(berth);
  assert.equal(berth.receiver.requests.length, 2);
});

test('a link does not outlast the key that made it', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  writeFileSync(join(directory.files, 'x'), 'data');
  await until('it is listed', async () => (await berth.uploads(directory)).length === 1);
  const inSeconds = (seconds: number): string => new Date(Date.now() + seconds * 1000).toISOString();
  const json = { name: 'k', role: 'admin', expires_at: inSeconds(60) };
  const issued = await berth.send('POST', '/api_keys', { json });
  const { key, id } = (issued.json as { data: { key: string; id: string } }).data;
  const made = (expires_at: string) =>
    berth.send('POST', `/directories/${directory.id}/links`, {
      json: { for: 'download', path: 'x', expires_at },
      authorization: `Bearer ${key}`,
    });
  const refusal = { errors: { expires_at: ['must not be after the API key expires'] } };
  assert.deepEqual((await made(inSeconds(120))).json, refusal);
  const { url } = ((await made(inSeconds(30))).json as { data: { url: string } }).data;
  const target = url.replace(/^https:\/\/[^/]+/, '');
  const listed = async () =>
    ((await berth.send('GET', `/directories/${directory.id}/links`)).json as { data: [] }).data;
  assert.equal((await ask(berth, target)).text, 'data');
  assert.equal((await listed()).length, 1);
  assert.equal((await berth.send('DELETE', `/api_keys/${id}`)).status, 204);
  assert.equal((await ask(berth, target)).status, 403);
  assert.deepEqual(await listed(), []);
});

test('keys: a read-only key makes no links, a limited one only its directories’; strangers are counted by address', async () => {
  using place = scratch();
  await using berth = await startBerth(place, { unauthenticatedRateLimit: 3 });
  const directory = await berth.directory();
  const other = await berth.directory({ name: 'Other' });
  const fields = { for: 'download', path: 'x', expires_at: soon() };
  for (const [scope, own, others] of [
    [{ read_only: true }, 403, 403],
    [{ directories: [directory.id] }, 201, 404],
  ] as const) {
    const made = await berth.send('POST', '/api_keys', { json: { name: 'k', role: 'admin', ...scope } });
    const { key } = (made.json as { data: { key: string } }).data;
    const statuses: number[] = [];
    for (const { id } of [directory, other]) {
      const authorization = `Bearer ${key}`;
      statuses.push((await berth.send('POST', `/directories/${id}/links`, { json: fields, authorization })).status);
      const revoked = await berth.send('DELETE', `/directories/${id}/links`, { authorization });
      assert.equal(revoked.status, statuses.at(-1) === 201 ? 204 : statuses.at(-1));
    }
    assert.deepEqual(statuses, [own, others]);
  }
  const wrong: Record<string, unknown>[] = [
    { path: '../x' },
    { path: 'a//b' },
    { path: '/x' },
    { path: '' },
    { path: 'x\0' },
    { path: 7 },
    { for: 'list' },
    { max_bytes: 1 },
    { for: 'upload' },
    { expires_at: '2020-01-01T00:00:00Z' },
    { expires_at: '2099-01-01T00:00:00Z' },
    { once: 'yes' },
  ];
  for (const each of wrong) {
    const { status } = await berth.send('POST', `/directories/${directory.id}/links`, { json: { ...fields, ...each } });
    assert.equal(status, 422, JSON.stringify(each));
  }
  const link = await downloadLink(berth, directory, '100%?#&+.txt');
  const statuses = [];
  for (let i = 0; i < 5; i += 1) statuses.push((await ask(berth, link)).status);
  assert.deepEqual(statuses, [404, 404, 404, 429, 429]);
});

test('berth directory link makes and revokes them, and the audit names who did', async () => {
  await using berth = await shared();
  const { place } = berth;
  const directory = await berth.directory();
  const command = (...words: string[]) => runHere(place.environment, 'directory', 'link', ...words);
  const { stdout } = await command('upload', directory.id, 'in/x', '--until', '1h', '--max-bytes', '10', '--once');
  const path = /https:\/\/[^/\s]+(\/\S+)/.exec(stdout)?.[1] ?? '';
  assert.equal((await ask(berth, path)).status, 200);
  const { stdout: more } = await command('upload', directory.id, 'in/', '--until', '1h', '--max-bytes', '10');
  const folder = /https:\/\/[^/\s]+(\/\S+)/.exec(more)?.[1] ?? '';
  const listed = JSON.parse((await command('list', directory.id, '--json')).stdout) as { id: string; path: string }[];
  assert.deepEqual(
    listed.map((each) => each.path),
    ['in/', 'in/x'],
  );
  assert.match((await command('revoke', directory.id, listed[1]?.id ?? '', '--yes')).stdout, /Revoked the link/);
  assert.equal((await ask(berth, path)).status, 403);
  assert.equal((await ask(berth, folder)).status, 200);
  assert.match((await command('revoke', directory.id, '--yes')).stdout, /Revoked all links/);
  assert.equal((await ask(berth, folder)).status, 403);
  const audit = (await runHere(place.environment, 'audit', '--directory', directory.id, '--json')).stdout;
  assert.match(audit, /create-link/);
  assert.match(audit, /revoke-link/);
  assert.ok(!audit.includes(path.split('/')[2] ?? ''));
});
