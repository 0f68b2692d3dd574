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
import { openSignedIn, sharedBrowser } from '../../support/browser.ts';
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
