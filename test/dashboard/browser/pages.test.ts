/** Every page in a browser: wide and narrow, light and dark, with JavaScript and without. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth, type TestBerth } from '../../support/berth.ts';
import {
  type OpenOptions,
  PHONE,
  seriousOf,
  startBrowser,
  type TestBrowser,
  tooWide,
  unlabelled,
  WIDE,
} from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { dashboardRoutes } from '../../support/dashboard-routes.ts';
import { type Demo, fillDemo } from '../../support/demo.ts';
import { scratch } from '../../support/scratch.ts';
import { PAGES } from './routes.ts';

test('no page is missing here', () => {
  const known = dashboardRoutes().filter(({ method }) => method === 'GET');
  assert.deepEqual(known.map(({ path }) => path).toSorted(), Object.keys(PAGES).toSorted());
});

/** Each width, colours and JavaScript's absence with each page, but not all with all: that would take minutes. */
const LOOKS: Readonly<Record<string, Partial<OpenOptions>>> = {
  'wide and light': { viewport: WIDE, colorScheme: 'light' },
  'narrow and dark': { viewport: PHONE, colorScheme: 'dark' },
  'wide and dark without JavaScript': { viewport: WIDE, colorScheme: 'dark', javaScriptEnabled: false },
  'narrow and light without JavaScript': { viewport: PHONE, colorScheme: 'light', javaScriptEnabled: false },
};

test('every page fits, is labelled, and has nothing that axe calls serious, whatever the browser', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  await using browser = await startBrowser();
  const demo = await fillDemo(berth, files.dir);
  const wrong: string[] = [];
  for (const [look, options] of Object.entries(LOOKS))
    wrong.push(...(await lookAtAll(berth, browser, demo, look, options)));
  assert.deepEqual(wrong, []);
});

async function lookAtAll(
  berth: TestBerth,
  browser: TestBrowser,
  demo: Demo,
  look: string,
  options: Partial<OpenOptions>,
): Promise<string[]> {
  const port = berth.service().dashboardPort ?? 0;
  using user = await signedIn({ config: berth.config, port }, berth.accountId);
  const origin = `https://127.0.0.1:${port}`;
  await using admin = await browser.open({ ...options, origin, token: user.cookies.get('__Host-berth') });
  await using nobody = await browser.open({ ...options, origin });
  await using half = await browser.open({ ...options, origin, token: demo.halfToken });
  const wrong: string[] = [];
  for (const [route, place] of Object.entries(PAGES)) {
    if (!place) continue;
    const { page, wrong: seen } = place.as === undefined ? admin : place.as === 'nobody' ? nobody : half;
    const answer = await page.goto(place.path(demo), { waitUntil: 'load' });
    if (answer?.status() !== 200) seen.push(`status: ${answer?.status()}`);
    if (new URL(page.url()).pathname !== place.path(demo)) seen.push(`went to ${page.url()}`);
    seen.push(...(await tooWide(page)), ...(await unlabelled(page)));
    // Axe needs the page's own timers.
    if (options.javaScriptEnabled !== false) seen.push(...(await seriousOf(page)));
    wrong.push(...seen.splice(0).map((what) => `${route}, ${look}: ${what}`));
  }
  return wrong;
}
