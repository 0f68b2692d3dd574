/**
 * The screenshots of docs/dashboard.md and the README. `BERTH_WRITE=1` takes them:
 *
 *   BERTH_WRITE=1 node --import ./scripts/lib/jsx.mjs --test test/dashboard/browser/screenshots.test.ts
 */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startBerth } from '../../support/berth.ts';
import { PHONE, startBrowser, WIDE } from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { type Demo, fillDemo } from '../../support/demo.ts';
import { scratch } from '../../support/scratch.ts';

const FOLDER = fileURLToPath(new URL('../../../docs/dashboard/', import.meta.url));
const MOST = 150_000;

const PAGES: Readonly<Record<string, (demo: Demo) => string>> = {
  home: () => '/dashboard',
  directories: () => '/dashboard/directories',
  deliveries: () => '/dashboard/deliveries',
  activity: () => '/dashboard/activity',
  files: ({ directory }) => `/dashboard/directories/${directory.id}/files`,
  access: ({ directory }) => `/dashboard/directories/${directory.id}/access`,
  webhook: ({ failing }) => `/dashboard/directories/${failing.id}/webhook`,
  'sign-in': () => '/dashboard/sign-in',
};

/** How each page is shown, and whose width that has. */
const VIEWS = { light: WIDE, dark: WIDE, 'phone-light': PHONE, 'phone-dark': PHONE } as const;
type View = keyof typeof VIEWS;

const viewsOf = (page: string): readonly View[] => {
  if (page === 'home' || page === 'files') return ['light', 'dark', 'phone-light'];
  return page === 'deliveries' || page === 'activity' ? ['light', 'dark', 'phone-dark'] : ['light', 'dark'];
};

const fileOf = (page: string, view: View): string => `${FOLDER}${page}-${view}.png`;

test('the documentation shows each of them, and none is large', async () => {
  if (process.env['BERTH_WRITE'] === '1') await write();
  const text = readFileSync(`${FOLDER}../dashboard.md`, 'utf8');
  for (const page of Object.keys(PAGES)) {
    for (const view of viewsOf(page)) {
      const { size } = statSync(fileOf(page, view));
      assert.ok(size <= MOST, `${page}, ${view}: ${size}`);
      assert.ok(text.includes(`dashboard/${page}-${view}.png`), `${page}, ${view}`);
    }
  }
});

async function write(): Promise<void> {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  await using browser = await startBrowser();
  const demo = await fillDemo(berth, files.dir);
  const port = berth.service().dashboardPort ?? 0;
  using user = await signedIn({ config: berth.config, port }, berth.accountId, 'admin', 'dana@northwind.example');
  const origin = `https://127.0.0.1:${port}`;
  for (const colorScheme of ['light', 'dark'] as const) {
    await using member = await browser.open({ origin, colorScheme, token: user.cookies.get('__Host-berth') });
    await using guest = await browser.open({ origin, colorScheme });
    for (const [name, pathOf] of Object.entries(PAGES)) {
      const { page } = name === 'sign-in' ? guest : member;
      for (const view of viewsOf(name).filter((each) => each.endsWith(colorScheme))) {
        await page.setViewportSize(VIEWS[view]);
        await page.goto(pathOf(demo));
        await page.screenshot({ path: fileOf(name, view) });
      }
    }
  }
}
