/** A new user's first visit from beginning to end: with JavaScript and without. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { TOTP } from 'otpauth';
import type { Page } from 'playwright-core';
import { startBerth, type TestBerth } from '../../support/berth.ts';
import { openMenu, PHONE, sharedBrowser, WIDE } from '../../support/browser.ts';
import { runHere } from '../../support/command-line.ts';
import { sftp } from '../../support/openssh-client.ts';
import { until } from '../../support/poll.ts';
import { scratch, type Scratch } from '../../support/scratch.ts';

const openBrowser = sharedBrowser();

const EMAIL = 'dana@northwind.example';
const PASSWORD = 'a slow boat to Reykjavik';

for (const [name, javaScriptEnabled, viewport] of [
  ['wide, with JavaScript', true, WIDE],
  ['on a phone, without JavaScript', false, PHONE],
] as const) {
  test(`from the link of the command line to a key that is refused: ${name}`, async () => {
    using place = scratch({ BERTH_DASHBOARD: 'on' });
    await using berth = await startBerth(place);
    const browser = await openBrowser();
    const origin = `https://127.0.0.1:${berth.service().dashboardPort}`;
    await using visit = await browser.open({ origin, javaScriptEnabled, viewport });
    const { page, wrong } = visit;
    await getIn(page, await linkOf(place, berth));
    const key = await makeKey(page);
    const api = { key, port: berth.service().port, ca: berth.config.tls.cert };
    assert.equal(await statusOf(api), 200);
    const login = await makeDirectory(page, berth);
    await setWebhook(page, berth.receiver.url);
    await uploadAndSee(page, { place, login, isLive: javaScriptEnabled });
    await inspectAndSendAgain(page, berth);
    await revoke(page);
    assert.equal(await statusOf(api), 401);
    await openMenu(page);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    assert.deepEqual(wrong, []);
  });
}

async function linkOf(place: Scratch, { accountId }: TestBerth): Promise<string> {
  const create = ['user', 'create', EMAIL, '--account', accountId, '--role', 'admin', '--json'];
  const { status, stdout, stderr } = await runHere(place.environment, ...create);
  assert.equal(status, 0, stderr);
  const { link, email } = JSON.parse(stdout) as { link: string; email: string };
  assert.equal(email, EMAIL);
  return new URL(link).pathname;
}

async function getIn(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Repeat password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set password and sign in' }).click();
  await page.getByRole('heading', { name: 'Home' }).waitFor();
  assert.equal((await page.goto(link))?.status(), 404, 'a link works once');

  await page.goto('/dashboard');
  await go(page, 'Profile');
  await page.getByRole('link', { name: 'Set up' }).click();
  const secret = (await page.locator('ol code').first().textContent()) ?? '';
  await page.getByLabel('Code', { exact: true }).fill(new TOTP({ secret }).generate());
  await page.getByRole('button', { name: 'Turn on' }).click();
  const codes = (await page.locator('[data-secret="recovery-codes"]').textContent()) ?? '';
  const [code = ''] = codes.trim().split(/\s+/);
  await copySecret(page);

  await openMenu(page);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Email').fill(EMAIL);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  // The code of this half minute was taken already: it would be refused.
  await page.getByLabel('Code', { exact: true }).fill(code);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Home' }).waitFor();
}

/** Copies the secret that is shown once: a page asks before it loses one. Without JavaScript there is no button. */
async function copySecret(page: Page): Promise<void> {
  const copy = page.getByRole('button', { name: /^Copy/ }).first();
  if (await copy.isVisible()) await copy.click();
}

async function go(page: Page, name: string): Promise<void> {
  await openMenu(page);
  await page.locator('header').getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

async function goToKeys(page: Page): Promise<void> {
  await go(page, 'Settings');
  await page.getByRole('navigation', { name: 'Settings' }).getByRole('link', { name: 'API keys' }).click();
}

async function makeKey(page: Page): Promise<string> {
  await goToKeys(page);
  await page.getByLabel('Name').fill('nightly import');
  await page.getByLabel('Role').selectOption('admin');
  await page.getByRole('button', { name: 'Create key' }).click();
  const key = (await page.locator('[data-secret="api-key"]').textContent()) ?? '';
  await copySecret(page);
  await page.reload();
  assert.equal(await page.locator('[data-secret]').count(), 0, 'it is shown once');
  return key;
}

async function statusOf({ key, port, ca }: { key: string; port: number; ca: string }): Promise<number> {
  const url = `https://127.0.0.1:${port}/api/v1/directories`;
  const options = ['--silent', '--cacert', ca, '--oauth2-bearer', key, '--output', '/dev/null'];
  const { stdout } = await promisify(execFile)('curl', [...options, '--write-out', '%{http_code}', url]);
  return Number(stdout);
}

async function makeDirectory(page: Page, { sshd }: TestBerth) {
  await go(page, 'Directories');
  await page.getByRole('link', { name: 'New directory' }).click();
  await page.getByLabel('Name').fill('Acme invoices');
  await page.getByRole('button', { name: 'Create directory' }).click();
  await page.getByRole('heading', { level: 1, name: 'Acme invoices' }).waitFor();
  const password = (await page.locator('[data-secret="sftp-password"]').textContent()) ?? '';
  await copySecret(page);
  const main = (await page.locator('main').textContent()) ?? '';
  const [, username = ''] = /sftp -P \d+ (\S+)@/.exec(main) ?? [];
  return { port: sshd.port, username, password };
}

async function tab(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Directory' }).getByRole('link', { name }).click();
}

async function setWebhook(page: Page, url: string): Promise<void> {
  await tab(page, 'Webhook');
  await page.getByLabel('To a URL of its own').check();
  await page.getByLabel('Webhook URL').fill(url);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').waitFor();
  await page.getByRole('button', { name: 'Show secret' }).click();
  assert.match((await page.locator('[data-secret="webhook-secret"]').textContent()) ?? '', /^\S{32}$/);
  await page.getByRole('button', { name: 'Send test' }).click();
  await page.getByRole('heading', { name: '✓ Accepted' }).waitFor();
}

interface Uploading {
  readonly place: Scratch;
  readonly login: { port: number; username: string; password: string };
  readonly isLive: boolean;
}

async function uploadAndSee(page: Page, { place, login, isLive }: Uploading): Promise<void> {
  await tab(page, 'Files');
  writeFileSync(`${place.dir}/march.csv`, 'a,b\n1,2\n');
  const { code, output } = await sftp(place.dir, login, ['put march.csv']);
  assert.equal(code, 0, output);
  const file = page.getByRole('rowheader', { name: 'Select march.csv' });
  if (!isLive)
    await until('the file is listed', async () => {
      await page.reload();
      return (await file.count()) > 0;
    });
  await file.waitFor();
  await page.getByRole('button', { name: 'Actions for march.csv' }).click();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download' }).click(),
  ]);
  assert.equal(download.suggestedFilename(), 'march.csv');
}

async function inspectAndSendAgain(page: Page, { receiver }: TestBerth): Promise<void> {
  const deliveries = (): number => receiver.requests.filter(({ body }) => body.includes('march.csv')).length;
  await until('it is announced', () => deliveries() === 1);
  await tab(page, 'Webhook');
  await page.getByRole('link', { name: 'march.csv' }).click();
  const shown = (await page.locator('main').textContent()) ?? '';
  const [sent] = receiver.requests.filter(({ body }) => body.includes('march.csv'));
  assert.ok(shown.includes(sent?.body.toString() ?? '?'), 'the exact body');
  assert.match(shown, /204/);
  await page.getByRole('button', { name: 'Send again' }).click();
  await until('it comes again', () => deliveries() === 2);
}

async function revoke(page: Page): Promise<void> {
  await goToKeys(page);
  const row = page.getByRole('row', { name: 'nightly import' });
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('heading', { name: 'Revoke: nightly import' }).waitFor();
  await page.locator('button.solid').click();
  await page.getByRole('status').waitFor();
}
