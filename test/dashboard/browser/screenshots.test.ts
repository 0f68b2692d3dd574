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
import { startBrowser } from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { type Demo, fillDemo } from '../../support/demo.ts';
import { scratch } from '../../support/scratch.ts';

const FOLDER = fileURLToPath(new URL('../../../docs/dashboard/', import.meta.url));
const MOST = 150_000;

const PAGES: Readonly<Record<string, (demo: Demo) => string>> = {
  overview: () => '/dashboard',
  directories: () => '/dashboard/directories',
  deliveries: () => '/dashboard/deliveries',
  access: ({ directory }) => `/dashboard/directories/${directory.id}/access`,
  webhook: ({ failing }) => `/dashboard/directories/${failing.id}/webhook`,
  delivery: ({ failing, deliveryId }) => `/dashboard/directories/${failing.id}/webhook/deliveries/${deliveryId}`,
  files: ({ directory }) => `/dashboard/directories/${directory.id}/files`,
  'sign-in': () => '/dashboard/sign-in',
};

const SCHEMES = ['light', 'dark'] as const;

const fileOf = (page: string, scheme: string): string => `${FOLDER}${page}-${scheme}.png`;

test('the documentation shows each of them, and none is large', async () => {
  if (process.env['BERTH_WRITE'] === '1') await write();
  const text = readFileSync(`${FOLDER}../dashboard.md`, 'utf8');
  for (const page of Object.keys(PAGES)) {
    for (const scheme of SCHEMES) {
      const { size } = statSync(fileOf(page, scheme));
      assert.ok(size <= MOST, `${page}, ${scheme}: ${size}`);
      assert.ok(text.includes(`dashboard/${page}-${scheme}.png`), `${page}, ${scheme}`);
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
  for (const colorScheme of SCHEMES) {
    await using member = await browser.open({ origin, colorScheme, token: user.cookies.get('__Host-berth') });
    await using guest = await browser.open({ origin, colorScheme });
    for (const [name, pathOf] of Object.entries(PAGES)) {
      const { page } = name === 'sign-in' ? guest : member;
      await page.goto(pathOf(demo));
      await page.screenshot({ path: fileOf(name, colorScheme) });
    }
  }
}
