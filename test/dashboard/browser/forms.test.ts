/** How a refused form, a question, a long name and an unreachable server look. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { startBerth } from '../../support/berth.ts';
import { openSignedIn, PHONE, sharedBrowser, tooWide, WIDE } from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { dashboardOf } from '../../support/directory-page.ts';
import { dataOf } from '../../support/field-sets.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';
import { sharedDashboard } from '../../support/shared-berth.ts';

const shared = sharedDashboard();
const openBrowser = sharedBrowser();

/** Waits until all of them are in view: the page's script and the browser scroll some time after the answer or the click. */
const inView = (page: Page, ...selectors: string[]): Promise<void> =>
  until(`${selectors.join(' and ')} in view`, () =>
    page.evaluate<boolean>(`${JSON.stringify(selectors)}.every((selector) => {
      const { top, bottom } = document.querySelector(selector).getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    })`),
  );

for (const [name, options] of [
  ['with JavaScript, on a phone', { viewport: PHONE }],
  ['without JavaScript, on a desk', { viewport: WIDE, javaScriptEnabled: false }],
] as const)
  test(`a refused form: the summary has the focus and leads to the field, and what was typed stays: ${name}`, async () => {
    await using berth = await shared();
    const browser = await openBrowser();
    await using visit = await openSignedIn(browser, berth, options);
    const { page, wrong } = visit;
    const { id } = await berth.directory();
    await page.goto(`/dashboard/directories/${id}/access`);
    await page.getByLabel('Allowed addresses').fill('::1\nnot an address');
    await page.getByLabel('Allowed addresses').press('Tab');
    await page.keyboard.press('Enter');
    const summary = page.getByRole('alert');
    await summary.waitFor();
    const hasFocus = `document.activeElement === document.querySelector('[role=alert]')`;
    const hasScript = !('javaScriptEnabled' in options);
    if (hasScript) await until('the summary has the focus', () => page.evaluate<boolean>(hasFocus));
    await inView(page, '[role=alert]', ...(hasScript ? ['#allowed_networks'] : []));
    await summary.getByRole('link', { name: 'Line 2: "not an address" is not an IP address or a CIDR range.' }).click();
    assert.equal(await page.getByLabel('Allowed addresses').inputValue(), '::1\nnot an address');
    await inView(page, '#allowed_networks');
    if (hasScript) assert.equal(await page.evaluate('document.activeElement.id'), 'allowed_networks');
    assert.deepEqual(wrong, []);
  });

test('a question is in the middle, names its object, and has one red button; a phone’s menu folds up', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth, { viewport: PHONE });
  const { page, wrong } = visit;
  const { id } = await berth.directory({ name: 'Acme invoices' });
  await page.goto(`/dashboard/directories/${id}/access`);
  await page.getByRole('button', { name: 'Suspend' }).click();
  const dialog = page.getByRole('dialog', { name: 'Suspend: Acme invoices' });
  await dialog.waitFor();
  const box = await dialog.boundingBox();
  assert.ok(box);
  const middle = box.y + box.height / 2;
  assert.ok(Math.abs(middle - PHONE.height / 2) < 20, `${middle}`);
  const colours = await page.evaluate<string[]>(
    `[...document.querySelectorAll('dialog button')].map((button) => getComputedStyle(button).backgroundColor)`,
  );
  assert.equal(new Set(colours).size, 2);
  assert.equal(colours[1], 'rgb(179, 38, 30)');
  await dialog.getByRole('button', { name: 'Cancel' }).click();

  const main = page.getByRole('navigation', { name: 'Main' });
  assert.equal(await main.isVisible(), false);
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  await main.getByRole('link', { name: 'Activity' }).click();
  await page.getByRole('heading', { level: 1, name: 'Activity' }).waitFor();
  assert.deepEqual(wrong, []);
});

test('a name of 100 characters hides no column: it is cut off, whole in its title, and whole on a phone', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const name = 'long '.repeat(20).trim().padEnd(100, 'x');
  const { id } = await berth.directory({ name });
  for (const viewport of [WIDE, PHONE]) {
    await using visit = await openSignedIn(browser, berth, { viewport });
    const { page, wrong } = visit;
    for (const path of ['', `/${id}`, `/${id}/files`]) {
      await page.goto(`/dashboard/directories${path}`);
      assert.deepEqual(await tooWide(page), [], path);
    }
    await page.goto('/dashboard/directories');
    const hidden = await page.evaluate<number>(`(() => {
      const { scrollWidth, clientWidth } = document.querySelector('.scroll');
      return scrollWidth - clientWidth;
    })()`);
    assert.equal(hidden, 0, 'every column is in view');
    assert.equal(await page.locator('td .name').getAttribute('title'), name);
    assert.deepEqual(wrong, []);
  }
});

test('a session ends in the middle of a form: the page says so, and after a sign-in the input is still there', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  const { id } = await berth.directory();
  const path = `/dashboard/directories/${id}/settings`;
  await page.goto(path);
  await page.getByLabel('Description').fill('a long text that nobody types twice');
  const cookies = await page.context().cookies();
  await page.context().clearCookies();
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByText('Your session has ended. Sign in to continue.').waitFor();
  assert.equal(new URL(page.url()).searchParams.get('next'), path);
  // As signing in does it.
  await page.context().addCookies(cookies);
  await page.goto(path);
  await page.getByText('You were signed out before this was saved. Check your input and save again.').waitFor();
  assert.equal(await page.getByLabel('Description').inputValue(), 'a long text that nobody types twice');
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByText('Saved.').waitFor();
  await page.reload();
  assert.equal(await page.getByLabel('Description').inputValue(), 'a long text that nobody types twice');
  assert.equal(await page.getByText('You were signed out').count(), 0);

  await page.getByLabel('Description').fill('of somebody else');
  await page.context().clearCookies();
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByText('Your session has ended. Sign in to continue.').waitFor();
  using other = await signedIn(dashboardOf(berth), berth.accountId);
  const token = other.cookies.get('__Host-berth') ?? '';
  await page.context().addCookies(cookies.map((cookie) => ({ ...cookie, value: token })));
  await page.goto(path);
  assert.equal(await page.getByLabel('Description').inputValue(), 'a long text that nobody types twice');
  assert.equal(await page.getByText('You were signed out').count(), 0);
});

test('a webhook secret that was typed when the session ended is not kept by the browser', async () => {
  await using berth = await shared();
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page } = visit;
  const { id } = await berth.directory();
  await page.goto(`/dashboard/directories/${id}/webhook`);
  await page.getByText('Replace the secret', { exact: true }).click();
  await page.getByLabel('Your own secret').fill('whsec-that-nobody-may-read');
  await page.context().clearCookies();
  await page.getByRole('button', { name: 'Create new secret' }).click();
  await page.getByText('Your session has ended. Sign in to continue.').waitFor();
  assert.doesNotMatch(await page.evaluate('JSON.stringify({ ...sessionStorage })'), /nobody-may-read/);
});

test('a CSV file is read in the encodings that spreadsheets write, and not if it is too large', async () => {
  await using berth = await shared();
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard/directories/import');
  const csv = 'name\r\nMüller\r\n';
  const choose = (buffer: Buffer) =>
    page.getByLabel('File').setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer });
  for (const bytes of [
    Buffer.from(`\uFEFF${csv}`),
    Buffer.from(csv, 'latin1'),
    Buffer.from(`\uFEFF${csv}`, 'utf16le'),
  ]) {
    await page.getByLabel('Rows').fill('');
    await choose(bytes);
    await until(
      'the file is in the field',
      async () => (await page.getByLabel('Rows').inputValue()) === 'name\nMüller\n',
    );
  }
  await choose(Buffer.alloc(2 ** 20 + 1));
  await page.getByRole('button', { name: 'Preview' }).click();
  assert.equal(await page.getByLabel('Rows').inputValue(), 'name\nMüller\n');
  assert.equal(await page.locator('input[type=file]:invalid').count(), 1);
  assert.deepEqual(wrong, []);
});

test('what was typed into one form of a page is still there after another one was saved, for the same user', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  const { id } = await berth.directory();
  const login = `/dashboard/directories/${id}/access`;
  const key = page.getByLabel('Public key');
  const save = page.getByRole('button', { name: 'Save' }).first();
  const stored = (): Promise<string> => page.evaluate('JSON.stringify({ ...sessionStorage })');
  await page.goto(login);
  await key.fill('ssh-ed25519 AAAA');
  await save.click();
  await page.getByText('Saved.').waitFor();
  assert.equal(await key.inputValue(), 'ssh-ed25519 AAAA');
  assert.doesNotMatch(await stored(), /AAAA/);
  await page.goto(login);
  assert.equal(await key.inputValue(), '');

  await key.fill('ssh-ed25519 AAAA');
  const cookies = await page.context().cookies();
  await page.context().clearCookies();
  await save.click();
  await page.getByText('Your session has ended. Sign in to continue.').waitFor();
  using other = await signedIn(dashboardOf(berth), berth.accountId);
  const token = other.cookies.get('__Host-berth') ?? '';
  await page.context().addCookies(cookies.map((cookie) => ({ ...cookie, value: token })));
  await page.goto(login);
  assert.equal(await key.inputValue(), '');
  assert.doesNotMatch(await stored(), /AAAA/);

  await key.fill('ssh-ed25519 AAAA');
  await page.getByRole('button', { name: 'Sign out' }).first().click();
  await page.getByLabel('Email').waitFor();
  assert.doesNotMatch(await stored(), /AAAA/);
});

test('a secret that was typed into one form is not kept by the browser when another one is saved', async () => {
  await using berth = await shared();
  await using visit = await openSignedIn(await openBrowser(), berth);
  const { page, wrong } = visit;
  const { id } = await berth.directory();
  await page.addInitScript(
    `addEventListener('pagehide', () => localStorage.setItem('seen', JSON.stringify(sessionStorage)))`,
  );
  const seen = (): Promise<string> => page.evaluate(`localStorage.getItem('seen')`);
  await page.goto(`/dashboard/directories/${id}/webhook`);
  await page.getByText('Replace the secret', { exact: true }).click();
  await page.getByLabel('Your own secret').fill('whsec-that-nobody-may-read');
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByText('Saved.').waitFor();
  assert.match(await seen(), /other-forms/);
  assert.doesNotMatch(await seen(), /nobody-may-read/);
  assert.equal(await page.getByLabel('Your own secret').inputValue(), '');
  await page.getByLabel('Nowhere').check();
  await page.getByRole('button', { name: 'Show secret' }).click();
  await page.locator('[data-secret]').waitFor();
  assert.ok(await page.getByLabel('Nowhere').isChecked(), 'a choice is kept like other input');
  assert.equal(await page.getByLabel('Nowhere').getAttribute('value'), 'off');
  assert.deepEqual(wrong, []);
});

test('a time is kept like other input, in the user’s zone', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  const { id } = await berth.directory();
  const path = `/dashboard/directories/${id}/access`;
  await page.goto(path);
  await page.getByLabel('Expires').fill('2031-05-06T07:08');
  const cookies = await page.context().cookies();
  await page.context().clearCookies();
  await page.getByRole('button', { name: 'Save' }).last().click();
  await page.getByText('Your session has ended. Sign in to continue.').waitFor();
  await page.context().addCookies(cookies);
  await page.goto(path);
  await page.getByText('You were signed out before this was saved.').waitFor();
  assert.match(await page.getByLabel('Expires').inputValue(), /^2031-05-06T07:08/);
  await page.getByRole('button', { name: 'Save' }).last().click();
  await page.getByText('Saved.').waitFor();
  assert.match((await berth.send('GET', `/directories/${id}/access`)).text, /"expires_at":"2031-05-06T05:08:00/);
});

test('on a slow network a form that is sent twice is taken once', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page, wrong } = visit;
  await page.goto('/dashboard/directories/new');
  await page.getByLabel('Name', { exact: true }).fill('Only one');
  const box = await page.getByRole('button', { name: 'Create directory' }).boundingBox();
  assert.ok(box);
  const network = await page.context().newCDPSession(page);
  const slow = { latency: 2000, downloadThroughput: 50_000, uploadThroughput: 50_000 };
  await network.send('Network.emulateNetworkConditions', { offline: false, ...slow });
  for (let press = 0; press < 2; press += 1) {
    await page.mouse.click(box.x + 5, box.y + 5);
    await wait(700);
  }
  await page.getByRole('heading', { level: 1, name: 'Only one' }).waitFor();
  const directories = dataOf<{ name: string }[]>(await berth.send('GET', '/directories'));
  assert.equal(directories.filter(({ name }) => name === 'Only one').length, 1);
  assert.deepEqual(wrong, []);
});

test('berth is down when a form is sent: going back shows the input again', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  const { id } = await berth.directory();
  await page.goto(`/dashboard/directories/${id}/access`);
  const networks = page.getByLabel('Allowed addresses');
  const save = page.getByRole('button', { name: 'Save' }).last();
  await networks.fill('192.0.2.0/24');
  await page.route('**/access/limits', (route) => route.abort('connectionrefused'));
  await save.click();
  await page.waitForURL('chrome-error://chromewebdata/');
  await page.unroute('**/access/limits');
  await page.goBack();
  await page.getByText('berth didn’t answer, so this may not have been saved.').waitFor();
  assert.equal(await networks.inputValue(), '192.0.2.0/24');
  await save.click();
  await page.getByText('Saved.').waitFor();
  // After a form that was saved, the back button fills in nothing.
  await page.goto('/dashboard');
  await page.goBack();
  assert.equal(await page.getByText('berth didn’t answer').count(), 0);
});

test('a form that posts to its own page shows its input again, however the user comes back to it', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { page } = visit;
  const { id } = await berth.directory();
  const path = `/dashboard/directories/${id}/settings`;
  const description = page.getByLabel('Description');
  const answer = page.getByText('berth didn’t answer, so this may not have been saved.');
  await page.goto('/dashboard');
  await page.goto(path);
  await description.fill('typed once');
  // A proxy whose berth is away.
  await page.route(`**${path}`, (route) =>
    route.fulfill({ status: 502, body: '<h1>Bad gateway</h1>', contentType: 'text/html' }),
  );
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByRole('heading', { name: 'Bad gateway' }).waitFor();
  await page.unroute(`**${path}`);
  await page.goto('/dashboard');
  await page.goto(path);
  await answer.waitFor();
  assert.equal(await description.inputValue(), 'typed once');
  // What was refused is in the form already.
  await page.getByLabel('Name', { exact: true }).fill(' ');
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByRole('alert').getByRole('link', { name: 'Enter a name.' }).waitFor();
  await page.goto(path);
  assert.equal(await answer.count(), 0);
  assert.equal(await description.inputValue(), '');
});

test('a page says so while the server is away', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const browser = await openBrowser();
  await using visit = await openSignedIn(browser, berth);
  const { id } = await berth.directory();
  await visit.page.goto(`/dashboard/directories/${id}/files`);
  await berth.stop();
  await visit.page.getByText('berth does not answer. This page may be out of date.').waitFor({ timeout: 30_000 });
});
