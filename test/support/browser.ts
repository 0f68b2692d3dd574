/** Debian's chromium, driven by playwright. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after } from 'node:test';
import { type Browser, type BrowserContextOptions, chromium as driver, type Page } from 'playwright-core';
import type { TestBerth } from './berth.ts';
import { chromium } from './chromium.ts';
import { signedIn } from './dashboard.ts';

export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

export interface TestBrowser extends AsyncDisposable {
  readonly browser: Browser;
  /** A page of its own context: no cookies, no cache. */
  open(options: OpenOptions): Promise<WatchedPage>;
}

export interface OpenOptions extends BrowserContextOptions {
  /** `https://127.0.0.1:PORT`: every request goes there, or it counts as wrong. */
  readonly origin: string;
  /** The token of the session. Without one nobody is signed in. */
  readonly token?: string | undefined;
}

export interface WatchedPage extends AsyncDisposable {
  readonly page: Page;
  /** What no page may do: errors in the console, requests to other hosts, dialogs of scripts. */
  readonly wrong: string[];
}

/** A page of an admin of that berth's account, who is signed in. */
export async function openSignedIn(
  browser: TestBrowser,
  berth: TestBerth,
  options: Omit<OpenOptions, 'origin' | 'token'> = {},
): Promise<WatchedPage> {
  const port = berth.service().dashboardPort ?? 0;
  using user = await signedIn({ config: berth.config, port }, berth.accountId);
  const token = user.cookies.get('__Host-berth');
  return await browser.open({ ...options, origin: `https://127.0.0.1:${port}`, token });
}

/** Opens the main menu, which is folded up on a phone. */
export async function openMenu(page: Page): Promise<void> {
  const menu = page.locator('header .menu');
  if (await menu.isVisible()) await menu.click();
}

/** One browser for the tests of a file: each has pages in contexts of its own. Starts at the first call, ends after the last test. */
export function sharedBrowser(): () => Promise<TestBrowser> {
  let started: Promise<TestBrowser> | undefined;
  after(async () => (await started)?.[Symbol.asyncDispose]());
  return () => (started ??= startBrowser());
}

export async function startBrowser(): Promise<TestBrowser> {
  // Without --disable-gpu, chromium draws with a GPU in software: a tenth of these tests' processor time.
  const args = ['--disable-dev-shm-usage', '--disable-gpu', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])];
  const browser = await driver.launch({ executablePath: chromium(), args });
  return {
    browser,
    open: (options) => open(browser, options),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

async function open(browser: Browser, { origin, token, ...options }: OpenOptions): Promise<WatchedPage> {
  const context = await browser.newContext({
    baseURL: origin,
    ignoreHTTPSErrors: true,
    viewport: WIDE,
    timezoneId: 'Europe/Berlin',
    ...options,
  });
  if (token !== undefined) {
    const cookie = { name: '__Host-berth', value: token, url: origin, secure: true, httpOnly: true };
    await context.addCookies([{ ...cookie, sameSite: 'Lax' }]);
  }
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const wrong: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' && !isOwnStatus(message.text())) wrong.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => wrong.push(`script: ${error.message}`));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) wrong.push(`request: ${url}`);
  });
  page.on('dialog', (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { page, wrong, [Symbol.asyncDispose]: () => context.close() };
}

/** Chromium calls each answer of 4xx an error in the console; which status a page has, tests say themselves. */
function isOwnStatus(text: string): boolean {
  return /^Failed to load resource: the server responded with a status of 4\d\d/.test(text);
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResults {
  readonly violations: readonly {
    id: string;
    impact: string;
    nodes: readonly { html: string; failureSummary: string }[];
  }[];
}

/** What axe finds to be serious or critical on that page. */
export async function seriousOf(page: Page): Promise<string[]> {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(AXE);
  const { violations } = await page.evaluate<AxeResults>("axe.run({ resultTypes: ['violations'] })");
  return violations
    .filter(({ impact }) => ['serious', 'critical'].includes(impact))
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}

/** A part of a page as a screen reader gets it. */
interface AccessibleNode {
  readonly role: string;
  readonly name: string;
  readonly description: string;
  readonly properties: Readonly<Record<string, unknown>>;
}

/** What chromium tells a screen reader, in order. */
export async function accessibleNodes(page: Page): Promise<AccessibleNode[]> {
  const devTools = await page.context().newCDPSession(page);
  const { nodes } = await devTools.send('Accessibility.getFullAXTree');
  await devTools.detach();
  return nodes
    .filter(({ ignored }) => !ignored)
    .map(({ role, name, description, properties = [] }) => ({
      role: String(role?.value),
      name: String(name?.value ?? ''),
      description: String(description?.value ?? ''),
      properties: Object.fromEntries(properties.map((property) => [property.name, property.value.value as unknown])),
    }));
}

/** Controls without a label that can be seen. */
export function unlabelled(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const isShown = (element) => element.checkVisibility() && element.textContent.trim() !== '';
    const all = (selector) => [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility());
    const fields = all('input:not([type=hidden]), select, textarea').filter(({ labels }) => ![...labels].some(isShown));
    const buttons = all('button, a, summary').filter((button) => !isShown(button));
    return [...fields, ...buttons].map(({ outerHTML }) => outerHTML);
  })()`);
}

/** Elements that are wider than the window, except those that scroll by themselves. */
export function tooWide(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const beyond = [...document.querySelectorAll('body *')]
      .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
      .filter((element) => !element.closest('.scroll, pre, .tabs ul'));
    return ['the page: ' + scrollWidth + ' of ' + clientWidth, ...beyond.map(({ outerHTML }) => outerHTML.slice(0, 200))];
  })()`);
}
