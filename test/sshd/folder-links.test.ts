/** Links to folders, and the list of links, over real HTTPS. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { webhookOf } from '../support/berth.ts';
import { ask, form, put, soon, uploadLink } from '../support/links.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

test('a link to a folder takes any name, by PUT and by form, and replaces nothing', async (t) => {
  await using berth = await shared();
  const directory = await berth.directory();
  const link = await uploadLink(berth, directory, 'in/', { max_bytes: 1000 });
  assert.match(link, /^\/links\/[\w-]{32}\/$/);
  const page = await ask(berth, link, { headers: { accept: 'text/html' } });
  assert.match(page.text, /asks you for files/);
  const named = async (name: string, body: string) => {
    const { status, text } = await put(berth, link + name, body);
    return [status, (JSON.parse(text) as { data?: { filename: string } }).data?.filename];
  };
  const next = async () => webhookOf(await berth.receiver.next()).filename;
  const inFolder = (name: string) => readFileSync(join(directory.files, 'in', name), 'utf8');

  await t.test('a name that is taken gets a number, which its sender does not learn', async () => {
    assert.deepEqual(await named('scan.pdf', 'one'), [201, 'scan.pdf']);
    assert.deepEqual(await named('scan.pdf', 'two'), [201, 'scan.pdf']);
    assert.deepEqual([await next(), await next()], ['in/scan.pdf', 'in/scan (2).pdf']);
    assert.deepEqual([inFolder('scan.pdf'), inFolder('scan (2).pdf')], ['one', 'two']);
    const sent = await ask(berth, link, form('three', 'C:\\Users\\me\\scan.pdf'));
    assert.equal(sent.status, 201);
    assert.equal(await next(), 'in/scan (3).pdf');
  });
  await t.test('at the same time, too', async () => {
    const both = await Promise.all(['a', 'b', 'c'].map((body) => named('same', body)));
    assert.deepEqual(
      both,
      Array.from({ length: 3 }, () => [201, 'same']),
    );
    assert.deepEqual([await next(), await next(), await next()].toSorted(), ['in/same', 'in/same (2)', 'in/same (3)']);
  });
  await t.test('odd names, in its folder only', async () => {
    const long = 'ä'.repeat(127);
    for (const name of ['ä %.txt', '.hidden', long, 'מסמך 📄'.normalize(), '-rf']) {
      assert.equal((await named(encodeURIComponent(name), 'x'))[0], 201, name);
      assert.equal(await next(), `in/${name}`);
    }
    assert.equal((await named(encodeURIComponent(long), 'y'))[0], 201);
    const numbered = await next();
    assert.match(numbered, /^in\/ä+ \(2\)$/);
    for (const [name, status] of [
      ['%2e%2e', 403],
      ['..', 403],
      ['a%00', 403],
      ['x'.repeat(256), 403],
    ] as const)
      assert.equal((await put(berth, link + name, 'x')).status, status, name);
    assert.equal((await ask(berth, link, form('x', '..'))).status, 400);
    assert.equal((await put(berth, `${link}..%2fout`, 'x')).status, 403);
    assert.deepEqual(await named('sub%2Fdeep.txt', 'x'), [201, 'deep.txt']);
    assert.equal(await next(), 'in/deep.txt');
    assert.deepEqual(readdirSync(directory.files), ['in']);
  });
  await t.test('nothing can be read with it', async () => {
    assert.equal((await ask(berth, `${link}scan.pdf`)).status, 403);
  });
  await t.test('the top folder, and once', async () => {
    const top = await uploadLink(berth, directory, '/', { once: true });
    assert.equal((await put(berth, `${top}first`, 'x')).status, 201);
    assert.equal(await next(), 'first');
    assert.equal((await put(berth, `${top}second`, 'x')).status, 410);
    const { status } = await berth.send('POST', `/directories/${directory.id}/links`, {
      json: { for: 'download', path: 'in/', expires_at: soon() },
    });
    assert.equal(status, 422, 'no download of a folder');
  });
});

test('links are listed without their URLs, page by page, and revoked one by one', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const other = await berth.directory({ name: 'Other' });
  const path = `/directories/${directory.id}/links`;
  const urls = [];
  for (const name of ['a', 'b', 'c']) urls.push(await uploadLink(berth, directory, name, { once: name === 'b' }));
  const list = async (query = '') => {
    const { json, headers } = await berth.send('GET', `${path}${query}`);
    return { links: (json as { data: { id: string; path: string }[] }).data, headers };
  };
  const { links } = await list();
  assert.deepEqual(
    links.map((link) => link.path),
    ['c', 'b', 'a'],
  );
  assert.ok(!JSON.stringify(links).includes(urls[0]?.split('/')[2] ?? ''));
  const { links: first, headers } = await list('?limit=2');
  assert.equal(first.length, 2);
  const [, next = ''] = /<\/api\/v1\/directories\/[^/]+\/links(\?[^>]+)>/.exec(String(headers['link'])) ?? [];
  assert.deepEqual(
    (await list(next)).links.map((link) => link.path),
    ['a'],
  );

  assert.equal((await put(berth, urls[1] ?? '', 'x')).status, 201);
  await berth.receiver.next();
  assert.deepEqual(
    (await list()).links.map((link) => link.path),
    ['c', 'a'],
    'one that is used up has ended',
  );
  const id = links[2]?.id ?? '';
  assert.equal((await berth.send('DELETE', `/directories/${other.id}/links/${id}`)).status, 404);
  assert.equal((await ask(berth, urls[0] ?? '')).status, 200);
  assert.equal((await berth.send('DELETE', `${path}/${id}`)).status, 204);
  assert.equal((await ask(berth, urls[0] ?? '')).status, 403);
  assert.equal((await ask(berth, urls[2] ?? '')).status, 200);
  assert.equal((await berth.send('DELETE', `${path}/${id}`)).status, 404);
});

test('the database and its backup know no link that works', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const link = await uploadLink(berth, directory, 'a');
  const [, , token = ''] = link.split('/');
  assert.equal((await ask(berth, link)).status, 200);
  await berth.stop();
  const path = berth.config.database;
  for (const file of [path, `${path}-wal`]) if (existsSync(file)) assert.ok(!readFileSync(file).includes(token), file);
  await berth.start();
  assert.equal((await ask(berth, link)).status, 200);
});
