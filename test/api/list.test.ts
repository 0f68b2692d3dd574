/** GET /api/v1/directories */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf, LIST_FIELDS, TIMESTAMP } from '../support/field-sets.ts';
import { hosted } from '../support/hosted.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

type Rows = { id: string; name: string; external_id: string | null; inserted_at: string }[];

test('200: own directories, newest first, with exactly seven fields', async () => {
  using place = scratch();
  await using api = await hosted(place);
  assert.deepEqual((await api.send('GET', '/directories')).json, { data: [] });
  const stranger = await api.account('pro');
  await api.directory({ name: 'theirs' }, stranger.send);
  for (const name of ['one', 'two', 'three']) await api.directory({ name, external_id: `x-${name}` });
  const answer = await api.send('GET', '/directories');
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.link, undefined);
  const rows = dataOf<Rows>(answer);
  assert.deepEqual(
    rows.map(({ name }) => name),
    ['three', 'two', 'one'],
  );
  for (const row of rows) {
    assert.deepEqual(Object.keys(row), LIST_FIELDS);
    assert.match(row.inserted_at, TIMESTAMP);
  }
});

test('200: external_id filters by the exact value', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const ids = ['order 7', 'order 7', 'ORDER 7', '%', null];
  for (const external_id of ids) await api.directory({ external_id });
  const find = async (query: string): Promise<(string | null)[]> =>
    dataOf<Rows>(await api.send('GET', `/directories?external_id=${query}`)).map(({ external_id }) => external_id);
  assert.deepEqual(await find('order%207'), ['order 7', 'order 7']);
  assert.deepEqual(await find('order+7'), ['order 7', 'order 7']);
  assert.deepEqual(await find('%25'), ['%']);
  assert.deepEqual(await find(''), []);
  assert.deepEqual(await find('null'), []);
});

test('200: limit and after walk through the list by the Link header', async () => {
  using place = scratch();
  await using api = await hosted(place);
  for (let i = 0; i < 7; i += 1) await api.directory({ name: `n${i}`, external_id: i % 2 === 0 ? 'even' : 'odd' });
  const walk = async (start: string): Promise<string[][]> => {
    const pages: string[][] = [];
    for (let path: string | undefined = start; path !== undefined;) {
      const answer = await api.send('GET', path);
      pages.push(dataOf<Rows>(answer).map(({ name }) => name));
      path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
    }
    return pages;
  };
  assert.deepEqual(await walk('/directories?limit=3'), [['n6', 'n5', 'n4'], ['n3', 'n2', 'n1'], ['n0']]);
  assert.deepEqual(await walk('/directories?limit=7'), [['n6', 'n5', 'n4', 'n3', 'n2', 'n1', 'n0']]);
  assert.deepEqual(await walk('/directories?external_id=even&limit=2'), [
    ['n6', 'n4'],
    ['n2', 'n0'],
  ]);
});

test('the Link header leads on when the directories of a page are deleted, and their rows have gone', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const names = ['n0', 'n1', 'n2', 'n3', 'n4'];
  for (const name of names) await api.directory({ name });
  const seen: string[] = [];
  for (let path: string | undefined = '/directories?limit=2'; path !== undefined;) {
    const answer = await api.send('GET', path);
    assert.equal(answer.status, 200, answer.text);
    for (const { id, name } of dataOf<Rows>(answer)) {
      seen.push(name);
      assert.equal((await api.send('DELETE', `/directories/${id}`)).status, 204);
      const row = api.database.reads.selectFrom('directories').select('id').where('id', '=', id);
      await until('its row has gone', async () => (await row.execute()).length === 0);
    }
    path = /^<\/api\/v1(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
  }
  assert.deepEqual(seen.sort(), names);
});

test('422: a limit that is not a number from 1 to 1000, and an after that no row has', async () => {
  using place = scratch();
  await using api = await hosted(place);
  const theirs = await api.directory({}, (await api.account('pro')).send);
  const cases: [string, object][] = [
    ['limit=0', { limit: ['must be greater than or equal to 1'] }],
    ['limit=1001', { limit: ['must be less than or equal to 1000'] }],
    ['limit=-1', { limit: ['must be greater than or equal to 1'] }],
    ['limit=two', { limit: ['is invalid'] }],
    ['after=nobody', { after: ['is invalid'] }],
    [`after=soon.${theirs.id}`, { after: ['is invalid'] }],
    ['after=1795212999364712.nobody', { after: ['is invalid'] }],
    [`after=${theirs.id}`, { after: ['is invalid'] }],
  ];
  for (const [query, errors] of cases) {
    const { status, json } = await api.send('GET', `/directories?${query}`);
    assert.deepEqual([status, json], [422, { errors }], query);
  }
});
