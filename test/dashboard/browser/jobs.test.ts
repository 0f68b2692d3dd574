/** Jobs that people come for, in a browser: how many clicks and pages each takes. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { createAccount } from '../../../src/rules/accounts/accounts.ts';
import { DAY, formatMicros, SECOND, systemClock } from '../../../src/foundation/base/clock.ts';
import type { TestBerth, TestDirectory } from '../../support/berth.ts';
import { openSignedIn, PHONE, seriousOf, sharedBrowser, tooWide } from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { dashboardOf } from '../../support/directory-page.ts';
import { sftp } from '../../support/openssh-client.ts';
import { until } from '../../support/poll.ts';
import { sharedDashboard } from '../../support/shared-berth.ts';
import { entered, invited, onDatabase, PASSWORD } from '../../support/users.ts';

const openBrowser = sharedBrowser();
const shared = sharedDashboard();

/** Counts what a job takes from here on: clicks, and pages that the browser loads. */
function counting(page: Page) {
  const taken = { clicks: 0, pages: 0 };
  page.on('request', (request) => {
    const isPage = request.isNavigationRequest() && request.frame() === page.mainFrame();
    if (isPage && request.redirectedFrom() === null) taken.pages += 1;
  });
  const click = async (target: Locator): Promise<void> => {
    taken.clicks += 1;
    await target.click();
  };
  return { taken, click };
}

/** Deliveries that a receiver has refused. */
async function addFailed(berth: TestBerth, directory: TestDirectory, count: number): Promise<void> {
  const url = berth.receiver.url;
  const at = systemClock().now() - 3 * DAY;
  await onDatabase(berth, async ({ db }) => {
    for (let index = 0; index < count; index += 1) {
      const id = randomUUID();
      const inserted_at = at + index * SECOND;
      const to = {
        directory_id: directory.id,
        account_id: berth.accountId,
        url,
        destination: `${berth.accountId} ${url}`,
      };
      const body = Buffer.from(JSON.stringify({ event: 'file.uploaded', filename: `order-${index}.xml` }));
      await db
        .insertInto('deliveries')
        .values({ ...to, id, body, state: 'failed', attempts: 4, inserted_at, finished_at: inserted_at })
        .execute();
      const attempt = { number: 4, started_at: inserted_at, finished_at: inserted_at, latency_us: 1000, status: 500 };
      const response = Buffer.from('java.lang.NullPointerException');
      await db
        .insertInto('attempts')
        .values({ ...attempt, delivery_id: id, response })
        .execute();
    }
  });
}

test('a webhook has failed for days: why, and all of it sent again, in 2 clicks and 2 pages', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Globex orders' });
  await addFailed(berth, directory, 3);
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard');
  const { taken, click } = counting(page);
  await click(page.getByRole('link', { name: 'See why' }));
  const problem = page.locator('section').filter({ hasText: 'Globex orders' });
  await problem.getByText('500 Internal Server Error').waitFor();
  await problem.getByText('java.lang.NullPointerException').waitFor();
  await click(problem.getByRole('button', { name: 'Send 3 again' }));
  await until('all arrive', () => berth.receiver.requests.length === 3);
  assert.ok(taken.clicks <= 3 && taken.pages <= 2, JSON.stringify(taken));
  await until('nothing needs attention any more', async () => {
    await page.goto('/dashboard');
    return (await page.getByText('Globex orders').count()) === 0;
  });
  assert.deepEqual(wrong, []);
});

test('a test on Deliveries says at once what the receiver answers', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Umbrella claims' });
  await addFailed(berth, directory, 1);
  await using visit = await openSignedIn(await openBrowser(), berth, { javaScriptEnabled: false });
  const { page, wrong } = visit;
  await page.goto('/dashboard/deliveries');
  await page.getByRole('button', { name: 'Send test' }).click();
  await page.getByText(/204 No Content in .*It works again\./).waitFor();
  await page.getByRole('button', { name: 'Send 1 again' }).click();
  await until('it arrives', () => berth.receiver.requests.some(({ body }) => body.includes('order-0.xml')));
  assert.deepEqual(wrong, []);
});

test('who deleted this file, directory unknown: one search', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Monsters Power' });
  writeFileSync(join(berth.place.dir, 'report.pdf'), 'data');
  assert.equal((await sftp(berth.place.dir, directory.login, ['put report.pdf'])).code, 0);
  await until('it is recorded', async () => (await berth.uploads(directory)).length === 1);
  const [upload] = await berth.uploads(directory);
  using colleague = await signedIn(dashboardOf(berth), berth.accountId, 'member', 'colleague@northwind.example');
  const path = `/dashboard/directories/${directory.id}/files/${upload?.id}/delete`;
  assert.equal((await colleague.post(path)).status, 303);
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard/activity');
  const { taken } = counting(page);
  await page.getByLabel('File, person or address').fill('REPORT');
  await page.keyboard.press('Enter');
  const row = page.getByRole('row').filter({ hasText: 'deleted report.pdf' });
  await row.getByText('colleague@northwind.example').waitFor();
  assert.match((await row.textContent()) ?? '', /Monsters Power/);
  assert.deepEqual(taken, { clicks: 0, pages: 1 });
  assert.equal(await page.getByText('deleted report.pdf').count(), 1, 'in one row');
  assert.deepEqual(wrong, []);
});

test('all of somebody who left is revoked in 3 clicks and 2 pages', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  using leaver = await entered(dashboardOf(berth), berth.accountId);
  const expires_at = formatMicros(systemClock().now() + DAY).slice(0, 19);
  for (let n = 0; n < 3; n += 1) {
    await leaver.post('/dashboard/api-keys', { name: `Key ${n}`, role: 'member' });
    const link = { path: `theirs-${n}/`, max_bytes: '1 MB', expires_at, uses: 'often' };
    await leaver.post(`/dashboard/directories/${directory.id}/links?for=upload`, link);
  }
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard/team');
  const { taken, click } = counting(page);
  await click(page.getByRole('link', { name: leaver.email }));
  await click(page.getByText('Remove…'));
  await page.getByText('Revoke 3 API keys').waitFor();
  await page.getByText('End 3 links').waitFor();
  await click(page.getByRole('button', { name: 'Remove and revoke' }));
  await page.getByText('The user has been removed.').waitFor();
  assert.deepEqual(taken, { clicks: 3, pages: 2 });
  const left = await onDatabase(berth, async ({ db }) => [
    ...(await db.selectFrom('links').select('id').execute()),
    ...(await db
      .selectFrom('api_keys')
      .select('id')
      .where('revoked_at', 'is', null)
      .where('name', 'like', 'Key%')
      .execute()),
  ]);
  assert.deepEqual(left, []);
  assert.deepEqual(wrong, []);
});

test('from the invitation to a first directory in 3 clicks and 4 pages', async () => {
  await using berth = await shared();
  const account = await onDatabase(berth, (database) =>
    createAccount({ database, clock: systemClock() }, { name: 'Northwind Logistics', plan: 'business' }),
  );
  const { token } = await invited(berth, account.id);
  const origin = `https://127.0.0.1:${berth.service().dashboardPort}`;
  await using visit = await (await openBrowser()).open({ origin });
  const { page, wrong } = visit;
  const { taken, click } = counting(page);
  await page.goto(`/dashboard/link/${token}`);
  await page.getByText('Northwind Logistics').waitFor();
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Repeat password').fill(PASSWORD);
  await click(page.getByRole('button', { name: 'Set password and sign in' }));
  await click(page.getByRole('link', { name: 'Create a directory' }));
  await page.getByLabel('Name').fill('Acme invoices');
  await click(page.getByRole('button', { name: 'Create directory' }));
  await page.locator('[data-secret="sftp-password"]').waitFor();
  assert.ok(taken.clicks <= 4 && taken.pages <= 4, JSON.stringify(taken));
  assert.deepEqual(wrong, []);
});

test('"I can’t log in": from the search to the remedy done, in 1 click and 2 pages', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Vandelay imports' });
  const limits = { json: { allowed_networks: ['203.0.113.0/24'] } };
  assert.equal((await berth.send('PATCH', `/directories/${directory.id}/access`, limits)).status, 200);
  const at = systemClock().now() - 60 * SECOND;
  const text = 'right password, but not from an allowed network';
  await onDatabase(berth, ({ db }) =>
    db
      .insertInto('logins')
      .values({ directory_id: directory.id, address: '198.51.100.9', at, kind: 'refused', text })
      .execute(),
  );
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard');
  const { taken, click } = counting(page);
  await page.keyboard.press('/');
  await page.keyboard.type('vandelay');
  await page.keyboard.press('Enter');
  await click(page.getByRole('button', { name: 'Allow 198.51.100.9' }));
  await page.getByText('Allowed. Logins from this address work from now on.').waitFor();
  assert.deepEqual(taken, { clicks: 1, pages: 2 });
  const { text: access } = await berth.send('GET', `/directories/${directory.id}/access`);
  assert.match(access, /198\.51\.100\.9\/32/);
  assert.deepEqual(wrong, []);
});

test('one file among others is found and its webhook sent again, in 2 clicks and 2 pages', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Initech orders' });
  const names = ['order-07-11872.xml', 'order-07-11873.xml', 'order-07-11874.xml'];
  for (const name of names) writeFileSync(join(berth.place.dir, name), name);
  assert.equal(
    (
      await sftp(
        berth.place.dir,
        directory.login,
        names.map((name) => `put ${name}`),
      )
    ).code,
    0,
  );
  const sent = (): number => berth.receiver.requests.filter(({ body }) => body.includes('11873')).length;
  await until('all have been announced', () => berth.receiver.requests.length === names.length && sent() === 1);
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard');
  const { taken, click } = counting(page);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('11873');
  await page.keyboard.press('Enter');
  await click(page.getByRole('button', { name: 'Actions for order-07-11873.xml' }));
  await click(page.getByRole('button', { name: 'Send webhook again' }));
  await page.getByText('The webhook is on the way.').waitFor();
  assert.deepEqual(taken, { clicks: 2, pages: 2 });
  await until('it arrives again', () => sent() === 2);
  assert.deepEqual(wrong, []);
});

test('a secret is replaced by what the page shows, and no webhook is refused meanwhile', async () => {
  await using berth = await shared();
  const directory = await berth.directory({ name: 'Gringotts statements' });
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  await page.goto(`/dashboard/directories/${directory.id}/webhook`);
  const { taken, click } = counting(page);
  const code = await page.locator('pre').filter({ hasText: 'timingSafeEqual' }).first().textContent();
  const module = join(berth.place.dir, 'verify.mjs');
  writeFileSync(module, code ?? '');
  const { verify } = (await import(module)) as { verify: (body: Buffer, header: string, secrets: string[]) => boolean };
  const secretsShown = () => page.locator('[data-secret="webhook-secret"]').allTextContents();

  /** The secrets that the receiver knows. It refuses a webhook that none of them has signed. */
  let secrets: string[] = [];
  const refused: string[] = [];
  let count = 0;
  const sent = async (): Promise<void> => {
    count += 1;
    const name = `statement-${count}.csv`;
    writeFileSync(join(berth.place.dir, name), name);
    assert.equal((await sftp(berth.place.dir, directory.login, [`put ${name}`])).code, 0);
    const { body, headers } = await berth.receiver.next();
    if (!verify(body, String(headers['x-service-signature']), secrets)) refused.push(name);
  };

  await click(page.getByRole('button', { name: 'Show secret' }));
  await page.locator('[data-secret="webhook-secret"]').waitFor();
  secrets = await secretsShown();
  await sent();
  await click(page.getByText('Replace the secret', { exact: true }));
  await click(page.getByRole('button', { name: 'Create new secret' }));
  await page.getByText('Step 2 of 2').waitFor();
  await sent();
  const [old = '', next = ''] = await secretsShown();
  assert.deepEqual([old, next !== '' && next !== old], [secrets[0], true]);
  secrets = [old, next];
  await sent();
  await click(page.getByRole('button', { name: 'Switch to the new secret' }));
  await click(page.getByRole('dialog').getByRole('button', { name: 'Switch to the new secret' }));
  await page.getByText('The new secret is active.').waitFor();
  await sent();
  secrets = [next];
  await sent();
  assert.deepEqual([refused, count], [[], 5]);
  assert.deepEqual(taken, { clicks: 5, pages: 3 });
  secrets = [old];
  await sent();
  assert.deepEqual(refused, ['statement-6.csv'], 'the old one is of no use any more');

  // On a phone the tabs scroll, and fade where they go on.
  await page.setViewportSize(PHONE);
  const fades = await page.evaluate<string[]>(
    `[...document.querySelectorAll('.tabs ul, .views ul')].map((each) => getComputedStyle(each).backgroundAttachment)`,
  );
  assert.ok(fades.length > 0 && fades.every((fade) => fade.includes('local')), fades.join());
  assert.deepEqual(wrong, []);
});

test('40 directories fit into 3,000 px of a phone, and a finger finds every control', async () => {
  await using berth = await shared();
  for (let n = 0; n < 40; n += 1) await berth.directory({ name: `Customer ${n} with quite a long name` });
  await using visit = await openSignedIn(await openBrowser(), berth, {
    viewport: PHONE,
    hasTouch: true,
    isMobile: true,
  });
  const { page, wrong } = visit;
  await page.goto('/dashboard/directories');
  const height = await page.evaluate<number>('document.documentElement.scrollHeight');
  assert.ok(height < 3000, `${height} px`);
  assert.deepEqual([await tooWide(page), await seriousOf(page)], [[], []]);
  const small = await page.evaluate<
    string[]
  >(`[...document.querySelectorAll('main :is(button, .button, input, select), td a')]
    .map((each) => each.closest('.lines td:first-child')?.parentElement ?? each)
    .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 44)
    .map((each) => each.outerHTML)`);
  assert.deepEqual(small, []);
  const sizes = await page.evaluate<string[]>(
    `[...document.querySelectorAll('input:not([type=checkbox]), select')].map((each) => getComputedStyle(each).fontSize)`,
  );
  assert.ok(
    sizes.every((size) => size === '16px'),
    'iOS does not zoom in',
  );
  assert.deepEqual(wrong, []);
});
