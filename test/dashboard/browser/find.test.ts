/** Directories are found from every page, and picked for a key; files are selected; a phone's menu; a session that ends meanwhile. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { webhookOf } from '../../support/berth.ts';
import { accessibleNodes, openSignedIn, PHONE, seriousOf, sharedBrowser, tooWide } from '../../support/browser.ts';
import { until } from '../../support/poll.ts';
import { sftpSession } from '../../support/sftp-session.ts';
import { sharedDashboard } from '../../support/shared-berth.ts';

const shared = sharedDashboard();
const openBrowser = sharedBrowser();

test('slash and Ctrl+K find a directory from every page, by keyboard alone; without JavaScript the list has it', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const { id } = await berth.directory({ name: 'Wayne statements' });
  await berth.directory({ name: 'שלום 📄 <b>' });
  await using visit = await openSignedIn(browser, berth);
  const { page, wrong } = visit;
  for (const [key, path] of [
    ['/', '/dashboard/team'],
    ['Control+k', `/dashboard/directories/${id}/links`],
  ] as const) {
    await page.goto(path);
    await page.keyboard.press(key);
    await page.keyboard.type('WAYNE');
    await page.getByRole('option', { name: /Wayne statements/ }).waitFor();
    assert.deepEqual(await seriousOf(page), []);
    // The first is chosen.
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/dashboard/directories/${id}/files`);
  }
  await page.keyboard.press('/');
  await page.keyboard.type('שלום');
  await page.getByRole('option', { name: 'שלום 📄 <b>' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('option').waitFor({ state: 'detached' });
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'שלום 📄 <b>' }).waitFor();
  assert.deepEqual(wrong, []);

  await using plain = await openSignedIn(browser, berth, { javaScriptEnabled: false });
  await plain.page.goto('/dashboard/team');
  await plain.page.getByLabel('Find anything').fill('wayne');
  await plain.page.getByLabel('Find anything').press('Enter');
  await plain.page.getByRole('link', { name: 'Wayne statements' }).waitFor();
});

test('a search that finds nothing, or fails, says so', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await berth.directory({ name: 'Acme' });
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  await page.goto('/dashboard/api-keys');
  await page.getByText('Limit the key').click();
  const picker = page.getByRole('combobox', { name: 'Directories' });
  for (const [field, nothing] of [
    [page.getByLabel('Find anything'), 'Nothing matches.'],
    [picker, 'No directory matches.'],
  ] as const) {
    await field.fill('zzz');
    await page.getByRole('status').filter({ hasText: nothing }).waitFor();
    assert.deepEqual(await seriousOf(page), []);
    await page.route('**/dashboard/find**', (route) => route.abort('connectionrefused'));
    await field.fill('acm');
    await page.getByText('The search failed. Try again.').waitFor();
    await page.unroute('**/dashboard/find**');
    await page.route('**/dashboard/find**', (route) => route.fulfill({ status: 401, body: 'signed out' }));
    await field.fill('acme');
    await page.getByText('Your session has ended. Reload this page to sign in.').waitFor();
    await page.unroute('**/dashboard/find**');
    await field.fill('Acme');
    await page.getByRole('option', { name: /Acme/ }).waitFor();
    await page.keyboard.press('Escape');
  }
});

test('a key is limited to directories that are picked by their names', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const one = await berth.directory({ name: 'Acme' });
  await berth.directory({ name: 'Umbrella' });
  await using visit = await openSignedIn(browser, berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard/api-keys');
  await page.getByLabel('Name').fill('nightly');
  await page.getByText('Limit the key').click();
  const picker = page.getByRole('combobox', { name: 'Directories' });
  // Enter chooses a character of an input method.
  await picker.fill('阿');
  await picker.dispatchEvent('keydown', { key: 'Enter', isComposing: true });
  assert.equal(await page.locator('.picked li').count(), 0);
  await picker.fill('acm');
  await page.getByRole('option', { name: /Acme/ }).click();
  await picker.fill('umb');
  await page.getByRole('option', { name: /Umbrella/ }).click();
  await page.getByRole('button', { name: /^Remove umbrella/ }).click();
  assert.deepEqual(await seriousOf(page), []);
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.locator('[data-secret="api-key"]').waitFor();
  await page.getByRole('row', { name: new RegExp(`nightly.*${one.username}`) }).waitFor();
  assert.deepEqual(wrong, []);
});

test('files are selected, all at once or one by one; only then there are actions', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const directory = await berth.directory();
  await using connection = await berth.connect(directory);
  const session = await sftpSession(connection);
  for (const name of ['a.txt', 'b.txt']) {
    await session.put(name, 'x');
    webhookOf(await berth.receiver.next());
  }
  await using visit = await openSignedIn(browser, berth, { viewport: PHONE });
  const { page, wrong } = visit;
  await page.goto(`/dashboard/directories/${directory.id}/files`);
  const remove = page.getByRole('button', { name: 'Delete selected' });
  assert.equal(await remove.isVisible(), false);
  await page.locator('thead').getByLabel('Select all').check();
  await page.getByText('2 selected').waitFor();
  const download = page.getByRole('button', { name: 'Download selected' });
  await Promise.all([page.waitForEvent('download'), download.click()]);
  assert.equal(await download.getAttribute('aria-busy'), null, 'the page stays, and so do its buttons');
  await page.getByLabel('Select b.txt').uncheck();
  await page.getByText('1 selected').waitFor();
  assert.deepEqual(await tooWide(page), []);
  await remove.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete selected' }).click();
  await page.getByText('The files have been deleted.').waitFor();
  assert.equal(await page.getByLabel('Select b.txt').count(), 1, 'the other one is left');
  assert.deepEqual(wrong, []);

  await using plain = await openSignedIn(browser, berth, { javaScriptEnabled: false });
  await plain.page.goto(`/dashboard/directories/${directory.id}/files`);
  await plain.page.getByRole('button', { name: 'Download selected' }).click();
  await plain.page.getByText('Select one or more files first.').waitFor();
});

test('before Back loses a password that is shown once, the page asks, unless it was copied', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard/directories/new');
  await page.getByLabel('Name').fill('Acme');
  await page.getByRole('button', { name: 'Create directory' }).click();
  await page.locator('[data-secret="sftp-password"]').waitFor();
  // Browsers ask only where the user has done something.
  await page.locator('h1').click();
  await page.evaluate('history.back()');
  await until('it asks', async () => wrong.length > 0);
  assert.deepEqual(wrong.splice(0), ['dialog: ']);
  await page.getByRole('button', { name: /^Copy/ }).first().click();
  await page.goBack();
  await page.getByRole('heading', { name: 'New directory' }).waitFor();
  assert.deepEqual(wrong, []);
});

test('a session that has ended stores no file, and the page says so', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const directory = await berth.directory();
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  await page.goto(`/dashboard/directories/${directory.id}/files`);
  const { db, close } = await openDatabase(berth.config.database);
  await db.deleteFrom('user_sessions').execute();
  await close();
  const file = { name: 'lost.txt', mimeType: 'text/plain', buffer: Buffer.from('x') };
  await page.getByLabel('Upload files from this computer').setInputFiles(file);
  await page.getByText('lost.txt: Your session has ended. Reload this page to sign in').waitFor();
  assert.equal(existsSync(join(directory.files, 'lost.txt')), false);
});

test('a phone’s menu is a button that says whether it is open, leaves no trace in the history, and a select sorts', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await berth.directory({ name: 'B' });
  await berth.directory({ name: 'A' });
  await using visit = await openSignedIn(browser, berth, { viewport: PHONE });
  const { page, wrong } = visit;
  await page.goto('/dashboard/directories');
  const isOpen = async () =>
    (await accessibleNodes(page)).find(({ role, name }) => role === 'button' && name === 'Menu')?.properties[
      'expanded'
    ];
  assert.equal(await isOpen(), false);
  await page.getByRole('button', { name: 'Menu' }).click();
  assert.equal(await isOpen(), true);
  await page.getByRole('navigation', { name: 'Main' }).waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('navigation', { name: 'Main' }).isVisible(), false);
  assert.equal(new URL(page.url()).hash, '');
  // Nothing that cannot be seen has the focus.
  assert.equal(await page.locator('thead a').first().isVisible(), false);
  await page.getByLabel('Sort by').selectOption('Name, A to Z');
  await page.waitForURL('**sort=name*');
  assert.deepEqual(await page.locator('td .name').allTextContents(), ['A', 'B']);
  assert.deepEqual(wrong, []);

  await using plain = await openSignedIn(browser, berth, { viewport: PHONE, javaScriptEnabled: false });
  await plain.page.goto('/dashboard');
  await plain.page.getByRole('button', { name: 'Menu', exact: true }).click();
  await plain.page.getByRole('link', { name: 'Directories', exact: true }).click();
  await plain.page.getByRole('link', { name: 'New directory' }).click();
  await plain.page.getByLabel('Name').fill('By hand');
  await plain.page.getByRole('button', { name: 'Create directory' }).click();
  await plain.page.locator('[data-secret="sftp-password"]').waitFor();
  await plain.page.getByRole('link', { name: 'Create another' }).click();
  await plain.page.getByLabel('Name').waitFor();
});

test('the way back from a page below a directory fits a phone, however long the name is', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const { id } = await berth.directory({ name: 'M'.repeat(100) });
  await using visit = await openSignedIn(browser, berth, { viewport: PHONE });
  await visit.page.goto(`/dashboard/directories/${id}/links`);
  assert.deepEqual(await tooWide(visit.page), []);
  await visit.page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link', { name: 'Files' }).click();
  await visit.page.waitForURL(`**/directories/${id}/files`);
});

// The dashboard by keyboard: skipping the navigation, the order of the focus, and that the focus is visible.

const NAVIGATION = ['Home', 'Directories', 'Deliveries', 'Activity', 'Settings'];

/** What has the focus, by its text, and whether that can be seen. */
function focused(page: Page): Promise<{ text: string; isVisible: boolean }> {
  return page.evaluate<{ text: string; isVisible: boolean }>(`(() => {
    const element = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const { width, height, left, top } = element.getBoundingClientRect();
    const isInside = width > 1 && height > 1 && left >= 0 && top >= 0;
    return { text: element.textContent.trim(), isVisible: isInside && outlineStyle !== 'none' && outlineWidth !== '0px' };
  })()`);
}

test('Tab goes by the order of the page and shows where it is; the first stop skips the navigation', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  await page.goto('/dashboard');
  const stops: string[] = [];
  for (let index = 0; index < NAVIGATION.length + 5; index += 1) {
    await page.keyboard.press('Tab');
    const { text, isVisible } = await focused(page);
    assert.ok(isVisible, text);
    stops.push(text);
  }
  assert.deepEqual(stops, ['Skip to the content', 'berth', '', ...NAVIGATION, 'Profile', 'Sign out']);

  await page.reload();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  assert.equal((await focused(page)).text, 'Create a directory');
  assert.deepEqual(visit.wrong, []);
});

test('Enter submits a form, and its field says what is wrong', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const port = berth.service().dashboardPort ?? 0;
  await using visit = await browser.open({ origin: `https://127.0.0.1:${port}` });
  const { page } = visit;
  await page.goto('/dashboard/sign-in');
  await page.getByLabel('Email').focus();
  await page.keyboard.type('nobody@example.com');
  await page.keyboard.press('Tab');
  await page.keyboard.type('a wrong password');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByRole('alert').textContent(), 'The email or the password is wrong.');
  assert.equal(await page.getByLabel('Email').inputValue(), 'nobody@example.com');
});
