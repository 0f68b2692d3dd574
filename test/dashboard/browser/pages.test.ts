/** Every page in a browser: wide and narrow, light and dark, with JavaScript and without. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth, type TestBerth } from '../../support/berth.ts';
import { PHONE, seriousOf, startBrowser, type TestBrowser, tooWide, unlabelled, WIDE } from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { dashboardRoutes } from '../../support/dashboard-routes.ts';
import { type Demo, fillDemo } from '../../support/demo.ts';
import { scratch } from '../../support/scratch.ts';
import { PAGES } from './routes.ts';

test('every page is covered', () => {
  const known = dashboardRoutes().filter(({ method }) => method === 'GET');
  assert.deepEqual(known.map(({ path }) => path).toSorted(), Object.keys(PAGES).toSorted());
});

interface Look {
  readonly viewport: typeof WIDE;
  readonly colorScheme: 'light' | 'dark';
}

/** Each width and each colours, with JavaScript and without, but not all with all: that would take minutes. */
const LOOKS: Readonly<Record<'with' | 'without', Readonly<Record<string, Look>>>> = {
  with: {
    'wide and light': { viewport: WIDE, colorScheme: 'light' },
    'narrow and dark': { viewport: PHONE, colorScheme: 'dark' },
  },
  without: {
    'wide and dark': { viewport: WIDE, colorScheme: 'dark' },
    'narrow and light': { viewport: PHONE, colorScheme: 'light' },
  },
};

test('every page fits, is labelled, and has nothing that axe calls serious, whatever the browser', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  await using browser = await startBrowser();
  const demo = await fillDemo(berth, files.dir);
  const wrong = [
    ...(await lookAtAll(berth, browser, demo, 'with')),
    ...(await lookAtAll(berth, browser, demo, 'without')),
  ];
  assert.deepEqual(wrong, []);
});

/** Loads each page once and looks at it in both ways: loading it, and axe into it, costs more than a look. */
async function lookAtAll(
  berth: TestBerth,
  browser: TestBrowser,
  demo: Demo,
  javaScript: 'with' | 'without',
): Promise<string[]> {
  const port = berth.service().dashboardPort ?? 0;
  using user = await signedIn({ config: berth.config, port }, berth.accountId);
  const options = { origin: `https://127.0.0.1:${port}`, javaScriptEnabled: javaScript === 'with' };
  await using admin = await browser.open({ ...options, token: user.cookies.get('__Host-berth') });
  await using nobody = await browser.open(options);
  await using half = await browser.open({ ...options, token: demo.halfToken });
  const wrong: string[] = [];
  for (const [route, place] of Object.entries(PAGES)) {
    if (!place) continue;
    const { page, wrong: seen } = place.as === undefined ? admin : place.as === 'nobody' ? nobody : half;
    const note = (look: string): void =>
      void wrong.push(...seen.splice(0).map((what) => `${route}, ${look} ${javaScript} JavaScript: ${what}`));
    const answer = await page.goto(place.path(demo), { waitUntil: 'load' });
    if (answer?.status() !== 200) seen.push(`status: ${answer?.status()}`);
    if (new URL(page.url()).pathname !== place.path(demo)) seen.push(`went to ${page.url()}`);
    note('loaded');
    for (const [look, { viewport, colorScheme }] of Object.entries(LOOKS[javaScript])) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      seen.push(...(await tooWide(page)), ...(await unlabelled(page)));
      // Axe needs the page's own timers.
      if (options.javaScriptEnabled) seen.push(...(await seriousOf(page)));
      note(look);
    }
  }
  return wrong;
}
