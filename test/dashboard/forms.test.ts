/** Forms that are older than a change: what another tab has saved stays, and if both changed a field, the page asks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signedIn } from '../support/dashboard.ts';
import { dashboardOf, done, pathOf, problemIn, shownByApi, unescaped } from '../support/directory-page.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

test('two tabs: saving one field reverts no other; of one that both have changed the second is asked', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory({ name: 'Acme', external_id: 'one' });
  const path = pathOf(directory);
  const fields = async () => {
    const { name, description, external_id } = await shownByApi(berth, directory);
    return [name, description, external_id];
  };
  /** As the form had them when both tabs opened it. */
  const opened = {
    was_name: 'Acme',
    was_description: '',
    was_external_id: 'one',
    was_max_connections: '10',
    name: 'Acme',
    description: '',
    external_id: 'one',
    max_connections: '10',
  };
  await done(user, `${path}/settings`, { ...opened, external_id: 'two' });
  await done(user, `${path}/settings`, { ...opened, description: 'a note' });
  assert.deepEqual(await fields(), ['Acme', 'a note', 'two'], 'the first tab’s field stays');

  const refused = await user.post(`${path}/settings`, { ...opened, external_id: 'three', name: 'Other' });
  assert.equal(refused.status, 422);
  assert.equal(
    problemIn(refused, 'external_id'),
    'Somebody changed this to "two" while you were editing. Save again to replace it.',
  );
  assert.match(refused.text, /value="three"/, 'what was typed stays');
  assert.deepEqual(await fields(), ['Acme', 'a note', 'two'], 'nothing of it is saved');
  const [, was = ''] = /name="was_external_id" value="([^"]*)"/.exec(refused.text) ?? [];
  await done(user, `${path}/settings`, { ...opened, was_external_id: was, external_id: 'three', name: 'Other' });
  assert.deepEqual(await fields(), ['Other', 'a note', 'three']);
});

test('a quota is given with its unit, and one that cannot be set is not offered', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const { text } = await user.get(`${path}/settings`);
  assert.doesNotMatch(text, /name="max_bytes"/);
  const refused = await user.post(`${path}/quota`, { max_bytes: '2.5 GB' });
  assert.match(unescaped(refused.text), /No quota can be set: /, 'it is read as a size');
  assert.match((await user.post(`${path}/quota`, { max_bytes: '5 apples' })).text, /Enter a size such as 500 MB/);
});

test('a summary of what is wrong links to each field, at the top of the page', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const refused = await user.post('/dashboard/directories', { name: '', max_connections: '0' });
  const [, summary = '', after = ''] = /<div class="problem" role="alert"([^]*?)<\/ul>([^]*)/.exec(refused.text) ?? [];
  assert.match(summary, /autofocus/);
  for (const [field, sentence] of [
    ['name', 'Enter a name.'],
    ['max_connections', 'The number of connections must be 1 or more.'],
  ]) {
    assert.ok(summary.includes(`<a href="#${field}">${sentence}</a>`), field);
    assert.ok(after.includes(`id="${field}"`), 'the field comes after it');
  }
});
