/** What only a browser can tell: which choice stands out, which field is wrong, and that long names hide no column. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { startBerth } from '../../support/berth.ts';
import { openSignedIn, PHONE, sharedBrowser, WIDE } from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { fillDemo } from '../../support/demo.ts';
import { sftp } from '../../support/openssh-client.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';
import { sharedDashboard } from '../../support/shared-berth.ts';
import { PAGES } from './routes.ts';

const shared = sharedDashboard();
const openBrowser = sharedBrowser();

const styleOf = (page: Page, selector: string, property: string): Promise<string> =>
  page.evaluate<string>(
    `getComputedStyle(document.querySelector(${JSON.stringify(selector)}))[${JSON.stringify(property)}]`,
  );

/** The text that the stylesheet adds. */
const contentOf = (page: Page, selector: string, part: string): Promise<string> =>
  page.evaluate<string>(`getComputedStyle(document.querySelector(${JSON.stringify(selector)}), '${part}').content`);

test('the chosen days stand out, a wrong field is marked, and the open menu can be closed', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const { id } = await berth.directory();
  await using visit = await openSignedIn(browser, berth);
  const { page, wrong } = visit;
  await page.goto(`/dashboard/directories/${id}/activity?topic=logins`);
  assert.equal(
    await page.getByRole('navigation', { name: 'Topics' }).locator('[aria-current]').textContent(),
    'Logins',
  );
  const background = (rest: string): Promise<string> =>
    styleOf(page, `[aria-label=Topics] a${rest}`, 'backgroundColor');
  assert.notEqual(await background('[aria-current]'), await background(':not([aria-current])'));

  await page.goto(`/dashboard/directories/${id}/settings`);
  await page.getByLabel('Max connections').fill('0');
  await page.evaluate("document.querySelectorAll('form').forEach((form) => { form.noValidate = true; })");
  await page.getByRole('button', { name: 'Save' }).first().click();
  await page.getByRole('link', { name: 'The number of connections must be 1 or more.' }).waitFor();
  const border = (selector: string): Promise<string> => styleOf(page, selector, 'borderTopColor');
  assert.notEqual(await border('#max_connections'), await border('#external_id'));

  await page.setViewportSize(PHONE);
  await page.goto(`/dashboard/directories/${id}/files`);
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  const menu = page.getByRole('button', { name: 'Menu', exact: true });
  const close = await menu.boundingBox();
  assert.ok(close && close.y >= 0, 'it is in the window');
  await menu.click();
  assert.equal(await page.getByRole('navigation', { name: 'Main' }).isVisible(), false);
  assert.deepEqual(wrong, []);
});

test('a long file name beside a long name of a directory leaves every column of the deliveries in the window', async () => {
  using files = scratch();
  await using berth = await shared();
  const browser = await openBrowser();
  await fillDemo(berth, files.dir);
  const database = await openDatabase(berth.config.database);
  await database.db
    .updateTable('directories')
    .set({ name: 'M'.repeat(100) })
    .where('account_id', '=', berth.accountId)
    .execute();
  const body = Buffer.from(JSON.stringify({ event: 'file.uploaded', filename: `${'m'.repeat(200)}.csv` }));
  await database.db.updateTable('deliveries').set({ body }).where('account_id', '=', berth.accountId).execute();
  await database.close();
  await using visit = await openSignedIn(browser, berth);
  await visit.page.goto('/dashboard/deliveries');
  const sizes = await visit.page.evaluate<number[]>(
    `[...document.querySelectorAll('.scroll')].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)`,
  );
  assert.ok(sizes.length > 0 && sizes.every((beyond) => beyond <= 0), String(sizes));
});

test('on a phone each tab is in the window; a time has its zone beside it; printed, the content is there alone', async () => {
  await using berth = await shared();
  const browser = await openBrowser();
  const { id } = await berth.directory();
  await using visit = await openSignedIn(browser, berth, { viewport: PHONE });
  const { page } = visit;
  await page.goto(`/dashboard/directories/${id}/activity`);
  const ends = await page.evaluate<number[]>(
    `[...document.querySelectorAll('.tabs a, .views a')].map((link) => link.getBoundingClientRect().right)`,
  );
  assert.ok(ends.length > 5 && ends.every((end) => end <= PHONE.width), ends.join(' '));

  for (const address of ['/dashboard/deliveries', `/dashboard/directories/${id}/access`, '/dashboard/api-keys']) {
    await page.goto(address);
    const zones = await page.evaluate<string[]>(
      `[...document.querySelectorAll('input[type=datetime-local]')].map(({ labels }) => labels[0].textContent)`,
    );
    assert.ok(
      zones.length > 0 && zones.every((zone) => zone.endsWith('(Europe/Berlin)')),
      `${address}: ${zones.join()}`,
    );
  }

  await page.emulateMedia({ media: 'print' });
  assert.ok(await page.getByRole('heading', { name: 'Settings' }).isVisible());
  assert.equal(await page.locator('header').isVisible(), false);
  assert.equal(await page.getByRole('button', { name: 'Create key' }).isVisible(), false);
  assert.match(await contentOf(page, 'td time', '::after'), /^"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d Europe\/Berlin"$/);
  await page.goto(`/dashboard/directories/${id}/access`);
  assert.ok(await page.getByLabel('Allowed addresses').isVisible(), 'a setting is on the paper');
  assert.equal(await page.getByRole('button', { name: 'Save' }).first().isVisible(), false);
});

test('no column is cut off: on a desk with long usernames and two badges, on a phone with the fingerprint of a key', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const browser = await openBrowser();
  const demo = await fillDemo(berth, files.dir);
  await berth.directory({ name: 'Gesellschaft für Datenaustausch und Lieferantenmanagement mbH & Co. KG' });
  const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDrLK5Lvz5XOgbKeyHdcLS8dD0rG1MXp3zkAdAi0B8ZK dana@laptop';
  const json = { directory: { public_key: key, auth_mode: 'both' } };
  assert.equal((await berth.send('PATCH', `/directories/${demo.directory.id}`, { json })).status, 200);
  const database = await openDatabase(berth.config.database);
  const monthsAgo = Date.now() * 1000 - 29 * 86_400_000_000;
  await database.db.updateTable('directories').set({ inserted_at: monthsAgo, last_upload_at: monthsAgo }).execute();
  await database.close();
  for (const [viewport, paths] of [
    [WIDE, ['']],
    [{ width: 1024, height: 800 }, ['']],
    [{ width: 820, height: 800 }, ['']],
    [PHONE, ['', `/${demo.directory.id}/access`, `/${demo.directory.id}/files`]],
  ] as const) {
    await using visit = await openSignedIn(browser, berth, { viewport });
    for (const path of paths) {
      await visit.page.goto(`/dashboard/directories${path}`);
      const beyond = await visit.page.evaluate<number[]>(
        `[...document.querySelectorAll('.scroll')].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)`,
      );
      assert.ok(
        beyond.length > 0 && beyond.every((each) => each <= 0),
        `${viewport.width} ${path}: ${beyond.join(' ')}`,
      );
    }
  }
});

// What customers, clients and receivers can write, on every page that shows it: as text, whatever it is.

const HIT = 'window.__hit=1';
const HOSTILE = [
  `<script>${HIT}</script>`,
  `"><img src=x onerror=${HIT}>`,
  `</script></title></textarea><svg onload=${HIT}>`,
  `' onmouseover='${HIT}' autofocus onfocus='${HIT}`,
  `javascript:${HIT}`,
  'gepj.\u202Eexe\u2066\u200B',
];
const ALL = HOSTILE.join(' ');

/** What would be there if any of it had become markup. */
const INJECTED = `[...document.querySelectorAll('img, iframe, [onerror], [onload], [onfocus], [onmouseover], [href^=javascript]')]
  .concat([...document.scripts].filter(({ src }) => !src.endsWith('/dashboard/static/script.js')))
  .map(({ outerHTML }) => outerHTML)`;

/** The visible text, without the values of fields, which show it unchanged for their owner to edit. */
const READ = `(() => {
  const main = document.querySelector('main').cloneNode(true);
  for (const field of main.querySelectorAll('textarea')) field.remove();
  return main.textContent;
})()`;

const REVERSED = /[\u202a-\u202e\u2066-\u2069\u200b]/;

test('names, metadata, keys, answers and browsers that say script are read as text on every page', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  const browser = await openBrowser();
  const demo = await fillDemo(berth, files.dir);
  const { id, login } = demo.directory;
  const names = HOSTILE.map((name) => name.replaceAll('/', '∕'));
  writeFileSync(`${files.dir}/one`, 'x');
  const before = berth.receiver.requests.length;
  const quoted = names.map((name) => `put one "${name.replaceAll('"', '\\"')}"`);
  const { code, output } = await sftp(files.dir, login, quoted);
  assert.equal(code, 0, output);
  await until(
    'the files are recorded',
    async () => (await berth.uploads(demo.directory)).length >= before + names.length,
  );

  const database = await openDatabase(berth.config.database);
  const named = { name: ALL, description: ALL, external_id: ALL, metadata: JSON.stringify({ [ALL]: ALL }) };
  await database.db.updateTable('directories').set(named).where('deleted_at', 'is', null).execute();
  await database.db.updateTable('accounts').set({ name: ALL }).execute();
  await database.db.updateTable('api_keys').set({ name: ALL }).execute();
  await database.db
    .updateTable('deliveries')
    .set({ body: Buffer.from(JSON.stringify({ filename: ALL })) })
    .execute();
  await database.db
    .updateTable('attempts')
    .set({ response: Buffer.from(ALL), error: ALL })
    .execute();
  await database.db.updateTable('transfers').set({ path: ALL, from_path: ALL }).execute();
  const port = berth.service().dashboardPort ?? 0;
  using user = await signedIn(
    { config: berth.config, port },
    berth.accountId,
    'admin',
    `"<img src=x onerror=${HIT}>"@example.com`,
  );
  await database.db.updateTable('user_sessions').set({ agent: ALL }).execute();
  await database.close();

  const origin = `https://127.0.0.1:${port}`;
  await using visit = await browser.open({ origin, token: user.cookies.get('__Host-berth') });
  const { page, wrong } = visit;
  const shown: string[] = [];
  for (const [route, place] of Object.entries(PAGES)) {
    if (!place || place.as) continue;
    await page.goto(place.path(demo));
    wrong.push(...(await page.evaluate<string[]>(INJECTED)).map((element) => `${route}: ${element}`));
    if (await page.evaluate('window.__hit')) wrong.push(`${route}: a script ran`);
    const main = await page.evaluate<string>(READ);
    if (REVERSED.test(main + (await page.title()))) wrong.push(`${route}: hidden characters`);
    if (main.includes(HIT)) shown.push(route);
  }
  assert.deepEqual(wrong, []);
  for (const route of SHOWING) assert.ok(shown.includes(route), `${route} shows none of it: ${id}`);
});

/** Pages that would be no test if they showed nothing of it. */
const SHOWING = ['/dashboard', '/dashboard/directories', '/dashboard/api-keys'];
