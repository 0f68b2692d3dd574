/** Actions on a directory, found by the names that instructions use: with JavaScript, which asks first, and without. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { openMenu, openSignedIn, PHONE, sharedBrowser, WIDE } from '../../support/browser.ts';
import { until } from '../../support/poll.ts';
import { sharedDashboard } from '../../support/shared-berth.ts';

const shared = sharedDashboard();
const openBrowser = sharedBrowser();

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDrLK5Lvz5XOgbKeyHdcLS8dD0rG1MXp3zkAdAi0B8ZK laptop';

for (const [name, javaScriptEnabled, viewport] of [
  ['with JavaScript, on a phone', true, PHONE],
  ['without JavaScript, on a desk', false, WIDE],
] as const) {
  test(`suspend, resume, a new password, a key, another name, delete: ${name}`, async () => {
    await using berth = await shared();
    const browser = await openBrowser();
    await using visit = await openSignedIn(browser, berth, { javaScriptEnabled, viewport });
    const { page, wrong } = visit;
    const { id, password } = await berth.directory();
    const home = `/dashboard/directories/${id}`;
    const access = async () => (await berth.send('GET', `/directories/${id}/access`)).text;

    /** Presses it, and yes where the page asks. */
    const press = async (button: string): Promise<void> => {
      await page.getByRole('button', { name: button, exact: true }).first().click();
      if (!javaScriptEnabled) return;
      const dialog = page.getByRole('dialog');
      if (await dialog.isVisible()) await dialog.getByRole('button', { name: button, exact: true }).click();
    };

    await page.goto(`${home}/login`);
    if (javaScriptEnabled) {
      await page.getByRole('button', { name: 'Suspend' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      assert.match(await access(), /"suspended":false/, 'it was only asked');
    }
    await press('Suspend');
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    assert.match(await access(), /"suspended":true/);
    await press('Resume');
    await page.getByRole('button', { name: 'Suspend' }).waitFor();
    assert.match(await access(), /"suspended":false/);

    await page.goto(`${home}/connect`);
    await press('New password');
    const shown = page.locator('[data-secret="sftp-password"]');
    await shown.waitFor();
    assert.notEqual(await shown.textContent(), password);
    assert.match((await shown.textContent()) ?? '', /^\S{32}$/);
    if (javaScriptEnabled) await copies(page, (await shown.textContent()) ?? '');

    await page.goto(`${home}/login`);
    await page.getByLabel('Public key').fill(KEY);
    await press('Add key');
    await page.getByRole('cell', { name: 'laptop' }).waitFor();

    await page.goto(`${home}/settings`);
    const settings = page.locator('section', { has: page.getByRole('heading', { name: 'Settings' }) });
    await settings.getByLabel('Name').fill('Acme & Sons');
    await settings.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { level: 1, name: 'Acme & Sons' }).waitFor();

    await page.getByLabel('Type the name to delete it').fill('Acme');
    await press('Delete directory');
    await page.locator('#confirmation-error').waitFor();
    await page.getByLabel('Type the name to delete it').fill('Acme & Sons');
    await press('Delete directory');
    await page.getByRole('heading', { level: 1, name: 'Directories' }).waitFor();
    await until('it is gone', async () => (await berth.send('GET', `/directories/${id}`)).status === 404);
    assert.deepEqual(wrong, []);
  });
}

/** The button puts the secret where it can be pasted from. */
async function copies(page: Page, secret: string): Promise<void> {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const button = page.getByRole('button', { name: 'Copy Password' });
  await button.click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), secret);
}

test('each part of the dashboard is reached by its name', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard');
  for (const name of [
    'Directories',
    'Deliveries',
    'SFTP sessions',
    'API keys',
    'Team',
    'Account',
    'Profile',
    'Overview',
  ]) {
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
    assert.equal(await page.locator('nav a[aria-current=page]').first().textContent(), name);
  }
  assert.deepEqual(wrong, []);
});

for (const [name, viewport] of [
  ['a phone', PHONE],
  ['a desk', WIDE],
] as const)
  test(`without JavaScript a directory is created on ${name}, from the menu to the password`, async () => {
    await using berth = await shared();
    const browser = await openBrowser();
    await using visit = await openSignedIn(browser, berth, { javaScriptEnabled: false, viewport });
    const { page, wrong } = visit;
    await page.goto('/dashboard');
    await openMenu(page);
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Directories' }).click();
    await page.getByRole('link', { name: 'New directory' }).click();
    await page.getByText('More settings').click();
    await page.getByLabel('Retention days').fill('7');
    await page.getByRole('button', { name: 'Create directory' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Acme');
    await page.getByRole('button', { name: 'Create directory' }).click();
    await page.getByRole('heading', { level: 1, name: 'Acme' }).waitFor();
    await page.getByText('Directory created.').waitFor();
    assert.match((await page.locator('[data-secret="sftp-password"]').textContent()) ?? '', /^\S{32}$/);
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByText('7 days').waitFor();
    assert.deepEqual(wrong, []);
  });
