/** A customer's PDF within the preview page: it is drawn, and what is no PDF runs nothing on the dashboard's origin. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { startBerth } from '../../support/berth.ts';
import { openSignedIn, PHONE, startBrowser, tooWide } from '../../support/browser.ts';
import { sftp } from '../../support/openssh-client.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';

/** One page, all red; `more` goes into its catalogue. */
function redPdf(more = ''): string {
  const drawing = '1 0 0 rg 0 0 300 300 re f';
  const parts = [
    `<</Type/Catalog/Pages 2 0 R${more}>>`,
    '<</Type/Pages/Kids[3 0 R]/Count 1>>',
    '<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R>>',
    `<</Length ${drawing.length}>>stream\n${drawing}\nendstream`,
  ];
  let text = '%PDF-1.4\n';
  const places = parts.map((part, index) => {
    const place = text.length;
    text += `${index + 1} 0 obj${part}endobj\n`;
    return `${String(place).padStart(10, '0')} 00000 n \n`;
  });
  const table = `xref\n0 5\n0000000000 65535 f \n${places.join('')}trailer<</Size 5/Root 1 0 R>>\n`;
  return `${text}${table}startxref\n${text.length}\n%%EOF\n`;
}

const SCRIPT = "<script>parent.document.title='hit';top.__hit=1</script>";

/** What a customer calls a PDF. */
const FILES = {
  'red.pdf': redPdf(),
  'script.pdf': redPdf(
    "/OpenAction<</S/JavaScript/JS(try{top.__hit=1}catch(e){};app.launchURL('https://evil.example/',true);this.submitForm('/dashboard/sign-out'))>>",
  ),
  'polyglot.pdf': `%PDF-1.4\n<!doctype html>${SCRIPT}`,
  'page.pdf': `<!doctype html>${SCRIPT}`,
};

/** Whether the viewer has drawn the page: by the colours of a screenshot, since nothing else sees into it. */
async function isRed(page: Page): Promise<boolean> {
  const picture = (await page.locator('object.preview').screenshot()).toString('base64');
  return page.evaluate<boolean>(`(async () => {
    const image = new Image();
    image.src = 'data:image/png;base64,${picture}';
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
    canvas.drawImage(image, 0, 0);
    const { data } = canvas.getImageData(0, 0, image.width, image.height);
    let red = 0;
    for (let at = 0; at < data.length; at += 4) if (data[at] > 240 && data[at + 1] < 20 && data[at + 2] < 20) red += 1;
    return red > 10_000;
  })()`);
}

test('a PDF is drawn within its page; nothing that is called one runs on this origin', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  await using browser = await startBrowser();
  const directory = await berth.directory();
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(files.dir, name), text, 'latin1');
  assert.equal(
    (
      await sftp(
        files.dir,
        directory.login,
        Object.keys(FILES).map((name) => `put ${name}`),
      )
    ).code,
    0,
  );
  await until('all are recorded', async () => (await berth.uploads(directory)).length === Object.keys(FILES).length);
  const uploads = new Map((await berth.uploads(directory)).map(({ filename, id }) => [filename, id]));
  const address = (name: string): string => `/dashboard/directories/${directory.id}/files/${uploads.get(name)}`;

  await using visit = await openSignedIn(browser, berth);
  const { page, wrong } = visit;
  await page.goto(`${address('red.pdf')}/preview`);
  await until('the PDF is drawn', () => isRed(page));
  await page.setViewportSize(PHONE);
  assert.deepEqual(await tooWide(page), []);

  for (const name of ['script.pdf', 'polyglot.pdf', 'page.pdf']) {
    await page.goto(`${address(name)}/preview`);
    const title = await page.title();
    if (name === 'script.pdf') await until('it is drawn', () => isRed(page));
    else await page.waitForTimeout(500);
    assert.deepEqual([await page.evaluate('window.__hit'), await page.title()], [undefined, title], name);
    assert.match(page.url(), new RegExp(`${address(name)}/preview$`));
  }
  const answers = await page.evaluate<
    string[][]
  >(`Promise.all(${JSON.stringify(Object.keys(FILES).map(address))}.map(async (address) => {
    const answer = await fetch(address + '/view');
    return [String(answer.status), ...['content-type', 'x-content-type-options', 'content-security-policy', 'x-frame-options'].map((name) => answer.headers.get(name))];
  }))`);
  const pdf = [
    '200',
    'application/pdf',
    'nosniff',
    "default-src 'none'; object-src 'self'; frame-ancestors 'self'",
    'SAMEORIGIN',
  ];
  assert.deepEqual(answers.slice(0, 3), [pdf, pdf, pdf]);
  assert.equal(answers[3]?.[0], '415');
  // No other page may hold a frame or an object.
  await page.goto(`/dashboard/directories/${directory.id}/files`);
  const policy = await page.evaluate<string>(
    `fetch(location.href).then(({ headers }) => headers.get('content-security-policy'))`,
  );
  assert.doesNotMatch(policy, /object-src|frame-src/);
  // The viewer is a page of the browser's own.
  assert.deepEqual(
    wrong.filter((request) => !/^request: chrome(?:-extension)?:/.test(request)),
    [],
  );
});
