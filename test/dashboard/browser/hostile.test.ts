/** What customers, clients and receivers can write, on every page that shows it: as text, whatever it is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { writeFileSync } from 'node:fs';
import { openDatabase } from '../../../src/foundation/db/open.ts';
import { startBerth } from '../../support/berth.ts';
import { startBrowser } from '../../support/browser.ts';
import { signedIn } from '../../support/dashboard.ts';
import { fillDemo } from '../../support/demo.ts';
import { sftp } from '../../support/openssh-client.ts';
import { until } from '../../support/poll.ts';
import { scratch } from '../../support/scratch.ts';
import { PAGES } from './routes.ts';

const HIT = 'window.__hit=1';
const HOSTILE = [
  `<script>${HIT}</script>`,
  `"><img src=x onerror=${HIT}>`,
  `</script></title></textarea><svg onload=${HIT}>`,
  `' onmouseover='${HIT}' autofocus onfocus='${HIT}`,
  `javascript:${HIT}`,
  'gepj.\u202Eexe\u2066\u200B',
];
const ALL = HOSTILE.join(' ');

/** What would be there if any of it had become markup. */
const INJECTED = `[...document.querySelectorAll('img, iframe, [onerror], [onload], [onfocus], [onmouseover], [href^=javascript]')]
  .concat([...document.scripts].filter(({ src }) => !src.endsWith('/dashboard/static/script.js')))
  .map(({ outerHTML }) => outerHTML)`;

/** The visible text, without the values of fields, which show it unchanged for their owner to edit. */
const READ = `(() => {
  const main = document.querySelector('main').cloneNode(true);
  for (const field of main.querySelectorAll('textarea')) field.remove();
  return main.textContent;
})()`;

const REVERSED = /[\u202a-\u202e\u2066-\u2069\u200b]/;

test('names, metadata, keys, answers and browsers that say script are read as text on every page', async () => {
  using files = scratch({ BERTH_DASHBOARD: 'on' });
  await using berth = await startBerth(files);
  await using browser = await startBrowser();
  const demo = await fillDemo(berth, files.dir);
  const { id, login } = demo.directory;
  const names = HOSTILE.map((name) => name.replaceAll('/', '∕'));
  writeFileSync(`${files.dir}/one`, 'x');
  const before = berth.receiver.requests.length;
  const quoted = names.map((name) => `put one "${name.replaceAll('"', '\\"')}"`);
  const { code, output } = await sftp(files.dir, login, quoted);
  assert.equal(code, 0, output);
  await until(
    'the files are recorded',
    async () => (await berth.uploads(demo.directory)).length >= before + names.length,
  );

  const database = await openDatabase(berth.config.database);
  const named = { name: ALL, description: ALL, external_id: ALL, metadata: JSON.stringify({ [ALL]: ALL }) };
  await database.db.updateTable('directories').set(named).where('deleted_at', 'is', null).execute();
  await database.db.updateTable('accounts').set({ name: ALL }).execute();
  await database.db.updateTable('api_keys').set({ name: ALL }).execute();
  await database.db
    .updateTable('deliveries')
    .set({ body: Buffer.from(JSON.stringify({ filename: ALL })) })
    .execute();
  await database.db
    .updateTable('attempts')
    .set({ response: Buffer.from(ALL), error: ALL })
    .execute();
  await database.db.updateTable('transfers').set({ path: ALL, from_path: ALL }).execute();
  const port = berth.service().dashboardPort ?? 0;
  using user = await signedIn(
    { config: berth.config, port },
    berth.accountId,
    'admin',
    `"<img src=x onerror=${HIT}>"@example.com`,
  );
  await database.db.updateTable('user_sessions').set({ agent: ALL }).execute();
  await database.close();

  const origin = `https://127.0.0.1:${port}`;
  await using visit = await browser.open({ origin, token: user.cookies.get('__Host-berth') });
  const { page, wrong } = visit;
  const shown: string[] = [];
  for (const [route, place] of Object.entries(PAGES)) {
    if (!place || place.as) continue;
    await page.goto(place.path(demo));
    wrong.push(...(await page.evaluate<string[]>(INJECTED)).map((element) => `${route}: ${element}`));
    if (await page.evaluate('window.__hit')) wrong.push(`${route}: a script ran`);
    const main = await page.evaluate<string>(READ);
    if (REVERSED.test(main + (await page.title()))) wrong.push(`${route}: hidden characters`);
    if (main.includes(HIT)) shown.push(route);
  }
  assert.deepEqual(wrong, []);
  for (const route of SHOWING) assert.ok(shown.includes(route), `${route} shows none of it: ${id}`);
});

/** Pages that would be no test if they showed nothing of it. */
const SHOWING = ['/dashboard', '/dashboard/directories', '/dashboard/api-keys', '/dashboard/api-keys/:id/revoke'];
