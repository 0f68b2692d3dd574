/**
 * A link, from the button on the Files page to the file that somebody sends with it: with JavaScript, which shows the
 * progress, and without.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../../support/berth.ts';
import { openSignedIn, PHONE, seriousOf, sharedBrowser, WIDE } from '../../support/browser.ts';
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
    await page.getByLabel('Folder or file').fill('in/scan.bin');
    await page.getByLabel('Maximum file size').fill('20 MB');
    await page.getByLabel('Uses').selectOption('Once');
    await page.getByRole('button', { name: 'Create link' }).click();
    const secret = page.locator('[data-secret="link"]');
    await secret.waitFor();
    const link = (await secret.textContent()) ?? '';
    assert.match(link, new RegExp(`^${origin}/links/[\\w-]{32}/scan\\.bin$`));
    if (javaScriptEnabled) {
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.locator('.secret').getByRole('button', { name: 'Copy' }).first().click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      assert.equal(await page.evaluate('navigator.clipboard.readText()'), link);
    }

    await using holder = await browser.open({ origin, javaScriptEnabled, viewport });
    const visit = holder.page;
    await visit.goto(link);
    await visit.getByRole('heading', { name: 'Test asks you for a file' }).waitFor();
    await visit.getByText(/Up to 20 MB, until\s+\d+ \w+/).waitFor();
    const bar = visit.getByRole('progressbar', { name: 'Progress', includeHidden: true });
    assert.equal(await bar.isVisible(), false);

    // On the disk, where the browser reads it: content that the test sends to a busy browser takes too long.
    const file = (size: number): string => {
      const path = join(files.dir, `${size}.bin`);
      writeFileSync(path, Buffer.alloc(size, 'x'));
      return path;
    };
    const button = visit.getByRole('button', { name: 'Upload' });
    if (javaScriptEnabled) {
      await visit.getByLabel('Choose a file').setInputFiles(file(20_000_001));
      await visit.getByRole('alert').filter({ hasText: 'too large. The limit is 20 MB' }).waitFor();
      assert.ok(await button.isDisabled());
      assert.equal(await bar.isVisible(), false, 'it is over');
      // Slow enough to be seen.
      const devTools = await visit.context().newCDPSession(visit);
      const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 2_000_000 };
      await devTools.send('Network.enable');
      await devTools.send('Network.emulateNetworkConditions', slow);
    }
    await visit.getByLabel('Choose a file').setInputFiles(file(6_000_000));
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
    await visit.getByRole('heading', { name: 'Test has received your file' }).waitFor();
    await visit
      .getByText(/^6(\.0)? MB$/)
      .filter({ visible: true })
      .waitFor();
    assert.equal(webhookOf(await berth.receiver.next()).size_bytes, 6_000_000);
    assert.equal(readFileSync(join(directory.files, 'in/scan.bin')).length, 6_000_000);

    await visit.goto(link);
    await visit.getByText('This link has been used').waitFor();
    await page.reload();
    await page.getByText('No links', { exact: true }).waitFor();
    assert.deepEqual([maker.wrong, holder.wrong], [[], []]);
  });
}

test('a link to a folder takes several files, also by drag and drop; failed ones can be tried again', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on', BERTH_API_PORT: String(await freePort()) });
  await using berth = await startBerth(files);
  const browser = await openBrowser();
  const directory = await berth.directory();
  const json = {
    for: 'upload',
    path: 'in/',
    max_bytes: 1000,
    expires_at: new Date(Date.now() + 3_600_000).toISOString(),
  };
  const made = await berth.send('POST', `/directories/${directory.id}/links`, { json });
  const { url, id } = (made.json as { data: { url: string; id: string } }).data;
  await using holder = await browser.open({ origin: `https://127.0.0.1:${berth.service().port}` });
  const { page } = holder;
  await page.goto(url);
  await page.getByRole('heading', { name: 'Test asks you for files' }).waitFor();
  // A drop, as the browser hands it to the field that covers the zone.
  await page.locator('.zone').dispatchEvent('dragenter');
  assert.match((await page.locator('.zone').getAttribute('class')) ?? '', /over/);
  const named = (name: string) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(name) });
  await page.getByLabel('Choose files').setInputFiles([named('a.txt'), named('קובץ ä.txt')]);
  await page.getByText('Upload 2 files').waitFor();

  await page.context().setOffline(true);
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('alert').filter({ hasText: 'The connection was lost' }).waitFor();
  await page.context().setOffline(false);
  await page.getByRole('button', { name: 'Upload 2 files' }).click();
  await page.getByRole('heading', { name: 'Test has received your files' }).waitFor();
  const names = [await berth.receiver.next(), await berth.receiver.next()].map((hook) => webhookOf(hook).filename);
  assert.deepEqual(names, ['in/a.txt', 'in/קובץ ä.txt']);
  assert.equal(await page.locator('#done li').count(), 2);

  // Revoked while the page is open.
  await page.getByRole('button', { name: 'Upload more files' }).click();
  await berth.send('DELETE', `/directories/${directory.id}/links/${id}`);
  await page.getByLabel('Choose files').setInputFiles(named('late.txt'));
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('alert').filter({ hasText: 'This link is not valid' }).waitFor();
  assert.deepEqual(await seriousOf(page), []);
  assert.deepEqual(
    holder.wrong.filter((each) => !each.includes('ERR_INTERNET_DISCONNECTED')),
    [],
  );
});
