/** Actions on a directory, found by the names that instructions use: with JavaScript, which asks first, and without. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { Locator, Page, Request } from 'playwright-core';
import { webhookOf } from '../../support/berth.ts';
import { openMenu, openSignedIn, PHONE, seriousOf, sharedBrowser, WIDE } from '../../support/browser.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';
import { sharedBerth } from '../../support/shared-berth.ts';
import { invited, PASSWORD } from '../../support/users.ts';

/** Links name the API's port. */
const shared = sharedBerth({ BERTH_DASHBOARD: 'on', BERTH_API_PORT: String(await freePort()) });
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

    const press = (button: string, among: Locator = page.locator('body')): Promise<void> =>
      among.getByRole('button', { name: button, exact: true }).first().click();
    /** Presses it, and again in the dialog or on the page that asks. */
    const pressTwice = async (button: string): Promise<void> => {
      await press(button);
      const question = javaScriptEnabled ? page.getByRole('dialog') : page.locator('section');
      await press(button, question.filter({ hasText: `${button}: Acme` }));
    };

    await page.goto(`${home}/access`);
    if (javaScriptEnabled) {
      await page.getByRole('button', { name: 'Suspend' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      assert.match(await access(), /"suspended":false/, 'it was only asked');
    }
    await pressTwice('Suspend');
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    assert.match(await access(), /"suspended":true/);
    await press('Resume');
    await page.getByRole('button', { name: 'Suspend' }).waitFor();
    assert.match(await access(), /"suspended":false/);

    await page.goto(`${home}/access`);
    await pressTwice('New password');
    const shown = page.locator('[data-secret="sftp-password"]');
    await shown.waitFor();
    assert.notEqual(await shown.textContent(), password);
    assert.match((await shown.textContent()) ?? '', /^\S{32}$/);
    if (javaScriptEnabled) await copies(page, (await shown.textContent()) ?? '');

    await pressTwice('Send a one-time link instead');
    const link = (await page.locator('[data-secret="link"]').textContent()) ?? '';
    const outside = await page.context().newPage();
    await outside.goto(link);
    if (javaScriptEnabled) assert.deepEqual(await seriousOf(outside), []);
    const reveal = outside.getByRole('button', { name: 'Show the password' });
    let posts = 0;
    await outside.route(link, async (route) => {
      posts += route.request().method() === 'POST' ? 1 : 0;
      await wait(300);
      await route.continue();
    });
    // The second of these clicks would replace the password by the page that says that it was shown.
    if (javaScriptEnabled) await reveal.dblclick({ delay: 50 });
    else await reveal.click();
    const sent = (await outside.locator('code').textContent()) ?? '';
    assert.equal(posts, 1);
    await outside.unroute(link);
    if (javaScriptEnabled) assert.deepEqual(await seriousOf(outside), []);
    assert.match(sent, /^\S{32}$/);
    if (javaScriptEnabled) await copies(outside, sent, 'Copy');
    await outside.goto(link);
    await outside.getByText('was shown before').waitFor();
    await outside.close();

    await page.goto(`${home}/access`);
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
async function copies(page: Page, secret: string, name = 'Copy Password'): Promise<void> {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const button = page.getByRole('button', { name });
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
  for (const name of ['Directories', 'Deliveries', 'Activity', 'Settings', 'Home']) {
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
    await page.getByText('Created.').waitFor();
    assert.match((await page.locator('[data-secret="sftp-password"]').textContent()) ?? '', /^\S{32}$/);
    await page.getByRole('navigation', { name: 'Directory' }).getByRole('link', { name: 'Settings' }).click();
    await page.getByText('7 days').waitFor();
    assert.deepEqual(wrong, []);
  });

// A link, from the button on the Files page to the file that somebody sends with it: with JavaScript, which shows the
// progress, and without.

for (const [name, javaScriptEnabled, viewport] of [
  ['with JavaScript, on a phone', true, PHONE],
  ['without JavaScript, on a desk', false, WIDE],
] as const) {
  test(`a link to upload is made, copied, opened by somebody else, and takes a file: ${name}`, async () => {
    using files = scratch();
    await using berth = await shared();
    const browser = await openBrowser();
    const directory = await berth.directory();
    const origin = `https://127.0.0.1:${berth.service().port}`;
    await using maker = await openSignedIn(browser, berth, { javaScriptEnabled, viewport });
    const { page } = maker;
    await page.goto(`/dashboard/directories/${directory.id}/files`);
    await page.getByRole('link', { name: 'Create a link' }).click();
    await page.getByLabel('Folder or file').fill('in/scan.bin');
    await page.getByLabel('Maximum file size').fill('20 MB');
    await page.getByLabel('Uses').selectOption('Once');
    await page.getByRole('button', { name: 'Create link' }).click();
    const secret = page.locator('[data-secret="link"]');
    await secret.waitFor();
    const link = (await secret.textContent()) ?? '';
    assert.match(link, new RegExp(`^${origin}/links/[\\w-]{32}/scan\\.bin$`));
    if (javaScriptEnabled) {
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.locator('.secret').getByRole('button', { name: 'Copy' }).first().click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      assert.equal(await page.evaluate('navigator.clipboard.readText()'), link);
    }

    await using holder = await browser.open({ origin, javaScriptEnabled, viewport });
    const visit = holder.page;
    await visit.goto(link);
    await visit.getByRole('heading', { name: 'Test asks you for a file' }).waitFor();
    await visit.getByText(/Up to 20 MB, until\s+\d+ \w+/).waitFor();
    const bar = visit.getByRole('progressbar', { name: 'Progress', includeHidden: true });
    assert.equal(await bar.isVisible(), false);

    // On the disk, where the browser reads it: content that the test sends to a busy browser takes too long.
    const file = (size: number): string => {
      const path = join(files.dir, `${size}.bin`);
      writeFileSync(path, Buffer.alloc(size, 'x'));
      return path;
    };
    const button = visit.getByRole('button', { name: 'Upload' });
    if (javaScriptEnabled) {
      await visit.getByLabel('Choose a file').setInputFiles(file(20_000_001));
      await visit.getByRole('alert').filter({ hasText: 'too large. The limit is 20 MB' }).waitFor();
      assert.ok(await button.isDisabled());
      assert.equal(await bar.isVisible(), false, 'it is over');
      // Slow enough to be seen.
      const devTools = await visit.context().newCDPSession(visit);
      const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 2_000_000 };
      await devTools.send('Network.enable');
      await devTools.send('Network.emulateNetworkConditions', slow);
    }
    await visit.getByLabel('Choose a file').setInputFiles(file(6_000_000));
    await button.click();
    if (javaScriptEnabled) {
      const far: number[] = [];
      const fraction = 'const bar = document.querySelector("progress"); bar ? bar.value / bar.max : 1';
      await until('the bar moves', async () => {
        if (await bar.isVisible()) far.push(Number(await visit.evaluate(fraction)));
        return new Set(far.filter((each) => each > 0 && each < 1)).size >= 2;
      });
      assert.deepEqual(
        far,
        [...far].sort((one, other) => one - other),
        'it never goes back',
      );
    }
    await visit.getByRole('heading', { name: 'Test has received your file' }).waitFor();
    await visit
      .getByText(/^6(\.0)? MB$/)
      .filter({ visible: true })
      .waitFor();
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 6_000_000);
    assert.equal(readFileSync(join(directory.files, 'in/scan.bin')).length, 6_000_000);

    await visit.goto(link);
    await visit.getByText('This link has been used').waitFor();
    await page.reload();
    await page.getByText('No links', { exact: true }).waitFor();
    assert.deepEqual([maker.wrong, holder.wrong], [[], []]);
  });
}

test('a link to a folder takes several files, also by drag and drop; failed ones can be tried again', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const directory = await berth.directory();
  const json = {
    for: 'upload',
    path: 'in/',
    max_bytes: 1000,
    expires_at: new Date(Date.now() + 3_600_000).toISOString(),
  };
  const made = await berth.send('POST', `/directories/${directory.id}/links`, { json });
  const { url, id } = (made.json as { data: { url: string; id: string } }).data;
  await using holder = await browser.open({ origin: `https://127.0.0.1:${berth.service().port}` });
  const { page } = holder;
  await page.goto(url);
  await page.getByRole('heading', { name: 'Test asks you for files' }).waitFor();
  // A drop, as the browser hands it to the field that covers the zone.
  await page.locator('.zone').dispatchEvent('dragenter');
  assert.match((await page.locator('.zone').getAttribute('class')) ?? '', /over/);
  const named = (name: string) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(name) });
  await page.getByLabel('Choose files').setInputFiles([named('a.txt'), named('קובץ ä.txt')]);
  await page.getByText('Upload 2 files').waitFor();

  await page.context().setOffline(true);
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('alert').filter({ hasText: 'The connection was lost' }).waitFor();
  await page.context().setOffline(false);
  // What has arrived stays on the page when the connection is lost after it.
  const second = ({ pathname }: URL): boolean => decodeURIComponent(pathname).endsWith('ä.txt');
  await page.route(second, (route) => route.abort('connectionreset'));
  await page.getByRole('button', { name: 'Upload 2 files' }).click();
  await page.getByRole('alert').filter({ hasText: 'The connection was lost' }).waitFor();
  assert.deepEqual(await page.locator('#ask li').allTextContents(), ['a.txt✓ received', 'קובץ ä.txt15 bytes']);
  await page.unroute(second);
  await page.getByRole('button', { name: 'Upload', exact: true }).click();
  await page.getByRole('heading', { name: 'Test has received your files' }).waitFor();
  const names = [await berth.receiver.next(), await berth.receiver.next()].map((hook) => webhookOf(hook).filename);
  assert.deepEqual(names, ['in/a.txt', 'in/קובץ ä.txt']);
  assert.equal(await page.locator('#done li').count(), 2);

  // Revoked while the page is open.
  await page.getByRole('button', { name: 'Upload more files' }).click();
  await berth.send('DELETE', `/directories/${directory.id}/links/${id}`);
  await page.getByLabel('Choose files').setInputFiles(named('late.txt'));
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('alert').filter({ hasText: 'This link is not valid' }).waitFor();
  assert.deepEqual(await seriousOf(page), []);
  assert.deepEqual(
    holder.wrong.filter((each) => !/ERR_INTERNET_DISCONNECTED|ERR_CONNECTION_RESET/.test(each)),
    [],
  );
});

// The link that sets a password, and signing in, in a real browser: on a desk and on a phone, with script and
// without.

test('a link signs in without passing on its token; a wrong password is reported, and the requested page follows', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const origin = `https://127.0.0.1:${berth.service().dashboardPort}`;
  for (const [viewport, javaScriptEnabled] of [
    [WIDE, true],
    [PHONE, false],
  ] as const) {
    const { email, token } = await invited(berth, berth.accountId);
    await using opened = await browser.open({ origin, viewport, javaScriptEnabled });
    const { page, wrong } = opened;
    const referrers: Promise<string | null>[] = [];
    const note = (request: Request): void => void referrers.push(request.headerValue('referer'));
    page.on('request', note);
    await page.goto(`/dashboard/link/${token}`);
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await page.getByLabel('Repeat password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Set password and sign in' }).click();
    await page.getByRole('heading', { name: 'Home' }).waitFor();
    // The browser may be gone before it answers about a later request.
    page.off('request', note);
    for (const referrer of await Promise.all(referrers)) assert.ok(!referrer?.includes(token), String(referrer));
    await openMenu(page);
    await page.getByRole('button', { name: 'Sign out' }).click();
    // Going on at once would call the request off.
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();

    await page.goto('/dashboard/directories?sort=name');
    await page.getByLabel('Email').fill(email);
    await page.getByLabel('Password', { exact: true }).fill('wrong horse battery staple');
    await page.getByRole('button', { name: 'Sign in' }).click();
    assert.equal(await page.getByRole('alert').textContent(), 'The email or the password is wrong.');
    assert.equal(await page.getByLabel('Email').inputValue(), email);
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Directories' }).waitFor();
    assert.equal(page.url(), `${origin}/dashboard/directories?sort=name`);
    assert.deepEqual(wrong, []);
  }
});
