/** Ways in, in a real browser on a phone: a second factor, several accounts, and the company's login. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { systemClock } from '../../../src/foundation/base/clock.ts';
import { createAccount } from '../../../src/rules/accounts/accounts.ts';
import { createUser } from '../../../src/rules/users/users.ts';
import { accessibleNodes, PHONE, seriousOf, sharedBrowser, tooWide } from '../../support/browser.ts';
import { sharedDashboard } from '../../support/shared-berth.ts';
import { codeAt, invited, onDatabase, operator, PASSWORD } from '../../support/users.ts';
import { ALICE, company } from '../company.ts';

const shared = sharedDashboard();
const openBrowser = sharedBrowser();

/** The page has that title, fits, and axe finds nothing. @returns what has the focus, as a screen reader gets it. */
async function looksAs(page: Page, title: string) {
  assert.equal(await page.title(), `${title} · berth`);
  assert.deepEqual([await seriousOf(page), await tooWide(page)], [[], []], title);
  return (await accessibleNodes(page)).find(({ role, properties }) => role !== 'RootWebArea' && properties['focused']);
}

async function setPassword(page: Page, token: string): Promise<void> {
  await page.goto(`/dashboard/link/${token}`);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Repeat password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set password and sign in' }).click();
  await page.getByRole('heading', { name: 'Home' }).waitFor();
}

async function signIn(page: Page, email: string): Promise<void> {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('a second factor is set up, asked for, replaced by a recovery code, and turned off', async () => {
  await using berth = await shared();
  const origin = `https://127.0.0.1:${berth.service().dashboardPort}`;
  const { email, token } = await invited(berth, berth.accountId);
  await using opened = await (await openBrowser()).open({ origin, viewport: PHONE });
  const { page, wrong } = opened;
  await setPassword(page, token);
  await page.goto('/dashboard/profile');
  await page.getByRole('link', { name: 'Set up' }).click();
  await looksAs(page, 'Two-factor sign-in');
  const secret = (await page.locator('ol code').textContent()) ?? '';
  const code = page.getByLabel('Code', { exact: true });
  await code.fill('000000');
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByRole('alert').waitFor();
  const focused = await looksAs(page, 'Error: Two-factor sign-in');
  assert.equal(focused?.role, 'alert', 'what is wrong is read first');
  assert.equal(await page.locator('ol code').textContent(), secret, 'the same key, which the app has by now');
  await code.fill(codeAt(secret, Date.now() * 1000));
  await page.getByRole('button', { name: 'Turn on' }).click();
  const shown = page.locator('[data-secret="recovery-codes"]');
  await shown.waitFor();
  await looksAs(page, 'Two-factor sign-in');
  const [recovery = ''] = ((await shown.textContent()) ?? '').split('\n');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy Recovery codes' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();

  await page.context().clearCookies();
  await page.goto('/dashboard/team');
  await signIn(page, email);
  await page.getByRole('heading', { name: 'Enter your code' }).waitFor();
  assert.equal((await looksAs(page, 'Enter your code'))?.name, 'Code');
  await code.fill('123');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  assert.equal((await looksAs(page, 'Error: Enter your code'))?.role, 'alert');
  await code.fill(recovery);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL('**/dashboard/team');
  await page.goto('/dashboard/profile');
  await page.getByRole('link', { name: 'Manage' }).click();
  await page.getByText('You have 9 recovery codes left.').waitFor();
  await page.getByLabel('Current password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Turn off' }).click();
  await page.getByText('Two-factor sign-in is off.').waitFor();
  await looksAs(page, 'Two-factor sign-in is off. Profile');
  assert.deepEqual(wrong, []);
});

test('somebody with the same password in several accounts chooses one, however long its name is', async () => {
  await using berth = await shared();
  const origin = `https://127.0.0.1:${berth.service().dashboardPort}`;
  const email = 'both@example.com';
  await using opened = await (await openBrowser()).open({ origin, viewport: PHONE });
  const { page, wrong } = opened;
  for (const name of ['One & Sons with quite a long name that goes on and on', 'Two']) {
    const token = await onDatabase(berth, async (database) => {
      const rules = { database, clock: systemClock() };
      const { id } = await createAccount(rules, { name, plan: 'pro' });
      return (await createUser(rules, operator(id), { email, role: 'admin' })).token;
    });
    await setPassword(page, token);
    await page.context().clearCookies();
  }
  await page.goto('/dashboard/team');
  await signIn(page, email);
  await page.getByRole('heading', { name: 'Choose an account' }).waitFor();
  await looksAs(page, 'Choose an account');
  await page.getByRole('button', { name: 'Two' }).click();
  await page.waitForURL('**/dashboard/team');
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  await page.locator('.who strong').filter({ hasText: 'Two' }).waitFor();
  assert.deepEqual(wrong, []);
});

test('the company’s login leads to the wanted page, shows no password, and says what to ask for if it refuses', async () => {
  await using place = await company();
  const origin = `https://127.0.0.1:${place.place.port}`;
  await using opened = await (await openBrowser()).open({ origin, viewport: PHONE });
  const { page, wrong } = opened;
  place.provider.person = ALICE;
  await page.goto('/dashboard/directories?sort=name');
  await looksAs(page, 'Sign in');
  await page.getByRole('link', { name: 'Sign in with SSO' }).click();
  await page.waitForURL('**/dashboard/directories?sort=name');
  await page.goto('/dashboard/profile');
  await page.getByRole('heading', { name: 'Two-factor sign-in' }).waitFor();
  assert.equal(await page.getByLabel('Current password').count(), 0);
  await page.context().clearCookies();
  place.provider.person = { ...ALICE, sub: 'bob', email: 'bob@example.com', email_verified: false };
  await page.goto('/dashboard/oidc');
  await page.getByText('bob@example.com has not been confirmed in your company’s login').waitFor();
  await looksAs(page, 'You are not signed in');
  await page.getByRole('link', { name: 'Go to the sign-in page' }).click();
  await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
  const elsewhere = wrong.filter((each) => !each.startsWith(`request: ${place.provider.issuer}`));
  assert.deepEqual(elsewhere, []);
});
