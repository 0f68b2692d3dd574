/** Forms that create something and show its secret: sent twice they create once, and two tabs lose no secret. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY, formatMicros, systemClock } from '../../src/foundation/base/clock.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { dashboardOf, passwordIn, pathOf } from '../support/directory-page.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

const shared = sharedDashboard();

const secretIn = ({ text }: { text: string }): string | undefined =>
  /data-secret="[^"]*"[^>]*>([^<]*)</.exec(text)?.[1];

async function formIn(user: Visitor, page: string): Promise<string> {
  return /name="_form" value="([\w-]+)"/.exec((await user.get(page)).text)?.[1] ?? '';
}

test('a form that is sent twice creates once, and both answers lead to its secret', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const links = `${pathOf(directory)}/links`;
  const expires_at = formatMicros(systemClock().now() + DAY).slice(0, 19);
  for (const [page, path, fields, rows] of [
    ['/dashboard/directories/new', '/dashboard/directories', { name: 'Twice' }, />Twice</g],
    ['/dashboard/api-keys', '/dashboard/api-keys', { name: 'Twice', role: 'member' }, />Twice</g],
    [links, `${links}?for=upload`, { path: 'twice/', max_bytes: '1 MB', expires_at, uses: 'often' }, />twice\/</g],
    ['/dashboard/team', '/dashboard/team', { email: 'twice@example.com', role: 'member' }, />twice@example\.com</g],
  ] as const) {
    const form = { ...fields, _form: await formIn(user, page) };
    assert.notEqual(form._form, '', page);
    const answers = await Promise.all([user.post(path, form), user.post(path, form)]);
    assert.deepEqual(
      answers.map(({ status, headers }) => [status, headers.location]),
      [answers[0], answers[0]].map((first) => [303, first?.headers.location]),
      path,
    );
    assert.ok(secretIn(await user.get(answers[1]?.headers.location ?? '')), path);
    const list = path === '/dashboard/directories' ? path : page;
    assert.equal((await user.get(list)).text.match(rows)?.length, 1, path);
  }
});

test('the secret of one tab does not replace that of another', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const [one, two] = [
    await user.post('/dashboard/directories', { name: 'One' }),
    await user.post('/dashboard/directories', { name: 'Two' }),
  ];
  const shown = [await user.get(one.headers.location ?? ''), await user.get(two.headers.location ?? '')].map(
    passwordIn,
  );
  assert.equal(new Set(shown).size, 2);
  assert.ok(!shown.includes(undefined));
  assert.equal(passwordIn(await user.get(one.headers.location ?? '')), undefined);
});
