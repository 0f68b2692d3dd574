/** The link that sets a password, and signing in, in a real browser: on a desk and on a phone, with script and without. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Request } from 'playwright-core';
import { startBerth } from '../../support/berth.ts';
import { openMenu, PHONE, startBrowser, WIDE } from '../../support/browser.ts';
import { scratch } from '../../support/scratch.ts';
import { invited, PASSWORD } from '../../support/users.ts';

test('a link signs in without passing on its token; a wrong password is reported, and the requested page follows', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  await using browser = await startBrowser();
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
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
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
