/** A link, from the button on the Files page to the file that somebody sends by it: with JavaScript, which shows how far it is, and without. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../../support/berth.ts';
import { openSignedIn, PHONE, sharedBrowser, WIDE } from '../../support/browser.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';

const openBrowser = sharedBrowser();

for (const [name, javaScriptEnabled, viewport] of [
  ['with JavaScript, on a phone', true, PHONE],
  ['without JavaScript, on a desk', false, WIDE],
] as const) {
  test(`a link to upload is made, copied, opened by somebody else, and takes a file: ${name}`, async () => {
    using files = scratch({ BERTH_DASHBOARD: 'on', BERTH_API_PORT: String(await freePort()) });
    await using berth = await startBerth(files);
    const browser = await openBrowser();
    const directory = await berth.directory();
    const origin = `https://127.0.0.1:${berth.service().port}`;
    await using maker = await openSignedIn(browser, berth, { javaScriptEnabled, viewport });
    const { page } = maker;
    await page.goto(`/dashboard/directories/${directory.id}/files`);
    await page.getByRole('link', { name: 'Create a link' }).click();
    await page.getByLabel('Path').fill('in/scan.bin');
    await page.getByLabel('Largest size').fill('20 MB');
    await page.getByLabel('Works', { exact: true }).selectOption('Once');
    await page.getByRole('button', { name: 'Create link' }).click();
    const secret = page.locator('[data-secret="link"]');
    await secret.waitFor();
    const link = (await secret.textContent()) ?? '';
    assert.ok(link.startsWith(`${origin}/links/${directory.id}/in/scan.bin?`), link);
    if (javaScriptEnabled) {
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.locator('.secret').getByRole('button', { name: 'Copy' }).first().click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      assert.equal(await page.evaluate('navigator.clipboard.readText()'), link);
    }

    await using holder = await browser.open({ origin, javaScriptEnabled, viewport });
    const visit = holder.page;
    await visit.goto(link);
    await visit.getByRole('heading', { name: 'Upload scan.bin' }).waitFor();
    const bar = visit.getByRole('progressbar', { name: 'Progress', includeHidden: true });
    assert.equal(await bar.isVisible(), false);

    const file = (size: number) => ({
      name: 'mine.bin',
      mimeType: 'application/octet-stream',
      buffer: Buffer.alloc(size, 'x'),
    });
    const button = visit.getByRole('button', { name: 'Upload' });
    if (javaScriptEnabled) {
      await visit.getByLabel('File').setInputFiles(file(20_000_001));
      await button.click();
      await visit.getByRole('status').filter({ hasText: 'too large' }).waitFor();
      assert.equal(await bar.isVisible(), false, 'it is over');
      // Slow enough to be seen.
      const devTools = await visit.context().newCDPSession(visit);
      const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 2_000_000 };
      await devTools.send('Network.enable');
      await devTools.send('Network.emulateNetworkConditions', slow);
    }
    await visit.getByLabel('File').setInputFiles(file(6_000_000));
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
    await visit.getByText('The file has been uploaded.').waitFor();
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 6_000_000);
    assert.equal(readFileSync(join(directory.files, 'in/scan.bin')).length, 6_000_000);

    await visit.goto(link);
    await visit.getByText('This link has been used').waitFor();
    assert.deepEqual([maker.wrong, holder.wrong], [[], []]);
  });
}
