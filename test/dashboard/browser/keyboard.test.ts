/** The dashboard by keyboard: skipping the navigation, the order of the focus, and that the focus is visible. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { openSignedIn, sharedBrowser } from '../../support/browser.ts';
import { sharedDashboard } from '../../support/shared-berth.ts';

const shared = sharedDashboard();
const openBrowser = sharedBrowser();

const NAVIGATION = ['Overview', 'Directories', 'Deliveries', 'SFTP sessions', 'API keys', 'Team', 'Account', 'Profile'];

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
  for (let index = 0; index < NAVIGATION.length + 4; index += 1) {
    await page.keyboard.press('Tab');
    const { text, isVisible } = await focused(page);
    assert.ok(isVisible, text);
    stops.push(text);
  }
  assert.deepEqual(stops, ['Skip to the content', 'berth', '', ...NAVIGATION, 'Sign out']);

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
