/** Why a customer cannot log in: the state in the header of every tab, the Access page's checks, and what is sent to the customer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY, SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { explain } from '../../src/operating/reports/explain.ts';
import type { SshdLog } from '../../src/operating/reports/sshd-log.ts';
import { signedIn } from '../support/dashboard.ts';
import { dashboardOf, done, passwordIn, pathOf, shownByApi, unescaped } from '../support/directory-page.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';
import { textOf } from './webhook-place.ts';

const shared = sharedDashboard();

const TABS = ['/files', '/access', '/webhook', '/activity', '/settings'];

test('every tab says that a directory is suspended, since when and by whom, and can resume it', async () => {
  await using berth = await shared();
  using admin = await signedIn(dashboardOf(berth), berth.accountId);
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const directory = await berth.directory();
  const path = pathOf(directory);
  await done(admin, `${path}/suspend`);
  for (const tab of TABS) {
    const { text } = await admin.get(path + tab);
    assert.match(
      textOf(text),
      new RegExp(`suspended.*Suspended .* by ${admin.email}\\. Nobody can log in\\.Resume`),
      tab,
    );
    const seen = await member.get(path + tab);
    assert.match(textOf(seen.text), /Nobody can log in\./, tab);
    assert.doesNotMatch(seen.text, />Resume</, tab);
  }
  const resumed = await done(admin, `${path}/resume`, { tab: 'Files' });
  assert.match(
    textOf(resumed.text),
    /^Resumed\. Customers can log in again\. Files · .*Resumed\. Customers can log in again\./,
  );
  for (const tab of TABS) assert.doesNotMatch((await admin.get(path + tab)).text, /Nobody can log in|suspended</, tab);

  await done(admin, `${path}/auth-mode`, { auth_mode: 'public_key' });
  for (const tab of TABS)
    assert.match(
      textOf((await admin.get(path + tab)).text),
      /nobody can log in.*has none\. Nobody can log in\.Add a key/,
      tab,
    );
  assert.match(textOf((await admin.get('/dashboard/directories')).text), /nobody can log in/);
  await done(admin, `${path}/auth-mode`, { auth_mode: 'password' });

  await done(admin, `${path}/access/limits`, { expires_at: '2001-01-01T00:00' });
  for (const tab of TABS)
    assert.match(textOf((await admin.get(path + tab)).text), /expired.*Expired 2001-01-01\. .*Change the expiry/, tab);
});

test('the Access page says what stops a login, and what to do about the last failed one', async () => {
  await using berth = await shared();
  using admin = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const why = async (): Promise<string> => {
    const { text } = await admin.get(`${path}/access`);
    return textOf(/<section class="card" id="why">([^]*?)<\/section>/.exec(text)?.[1] ?? '');
  };
  assert.match(await why(), /Nobody has logged in yet.*Nobody has tried\. Nothing stops a login\./);

  await done(admin, `${path}/auth-mode`, { auth_mode: 'public_key' });
  await done(admin, `${path}/access/limits`, { expires_at: '2001-01-01T00:00', allowed_networks: '203.0.113.0/24' });
  assert.match(
    await why(),
    /Login problem.*It expired at 2001-01-01 00:00:00\. Set a later.*only from 203\.0\.113\.0\/24\..*No public key has been added\. Add/,
  );
  // `berth explain` says the same.
  const nowhere: SshdLog = {
    linesNaming: async () => undefined,
    beginning: async () => undefined,
    async *linesSince() {},
  };
  const { notes } = await onDatabase(berth, (database) =>
    explain({ database, log: nowhere, node: '', now: systemClock().now(), settleSeconds: 0 }, directory.id, {
      since: 0,
      limit: 10,
    }),
  );
  const said = await why();
  // The page has times in the reader's zone.
  const plain = (text: string): string => text.replaceAll(/ UTC|(?<=\d\d:\d\d):\d\d/g, '');
  for (const note of notes.filter((each) => !each.startsWith('refused logins')))
    assert.ok(plain(said).includes(plain(note.replace(/^[^:]*: /, ''))), note);
  assert.match(
    notes.join('\n'),
    /nobody can log in: It expired.*\nsome logins are refused: .*203\.0\.113\.0.*\nsome logins are refused: Key only.*\nnobody can log in: No public key/,
  );

  const now = systemClock().now();
  const attempt = { directory_id: directory.id, address: '198.51.100.7' };
  await onDatabase(berth, ({ db }) =>
    db
      .insertInto('logins')
      .values({ ...attempt, at: now - DAY, kind: 'refused', text: 'wrong password' })
      .execute(),
  );
  assert.match(await why(), /Last failed .* from 198\.51\.100\.7: wrong password\. Create a new password, and send it/);
  await onDatabase(berth, ({ db }) =>
    db
      .insertInto('logins')
      .values({ ...attempt, at: now - 60 * SECOND, kind: 'login', text: 'by password' })
      .execute(),
  );
  assert.match(await why(), /wrong password\. A login has succeeded since/);
});

test('the text for a customer has the password only while it is shown, and the file never has it', async () => {
  await using berth = await shared();
  using admin = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory({ name: 'Acme "invoices"' });
  const path = pathOf(directory);
  const copied = (html: string): string[] =>
    Array.from(html.matchAll(/data-copy="(Protocol:[^"]*)"/g), ([, text = '']) => unescaped(text));
  const shown = await admin.submit(`${path}/password`);
  const password = passwordIn(shown) ?? '';
  const [without = '', all = ''] = copied(shown.text);
  assert.ok(without.includes(directory.username) && !without.includes(password));
  assert.match(all, new RegExp(`Username: +${directory.username}\nPassword: +${password}\nFingerprint: +SHA256:`));
  const later = await admin.get(`${path}/access`);
  const [only = '', ...others] = copied(later.text);
  assert.deepEqual(others, []);
  assert.match(only, /Password: +comes in a separate message\n/);

  const file = await admin.get(`${path}/access/instructions.txt`);
  assert.equal(file.headers['content-disposition'], 'attachment; filename="sftp-acme-invoices.txt"');
  assert.match(file.text, new RegExp(`Host: +127\\.0\\.0\\.1\nPort: +${berth.config.sftp.port}\n`));
  assert.ok(file.text.includes('Password:     comes in a separate message') && !file.text.includes(password));
  await done(admin, `${path}/auth-mode`, { auth_mode: 'public_key' });
  assert.match((await admin.get(`${path}/access/instructions.txt`)).text, /Log in with: +your private key/);
});

test('an address that is not allowed is allowed from the page, by an admin, and the failed login is settled', async () => {
  await using berth = await shared();
  using admin = await signedIn(dashboardOf(berth), berth.accountId);
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const directory = await berth.directory();
  const path = pathOf(directory);
  const address = '198.51.100.7';
  const text = 'right password, but not from an allowed network';
  await done(admin, `${path}/access/limits`, { allowed_networks: '203.0.113.0/24' });
  const now = systemClock().now();
  await onDatabase(berth, async ({ db }) => {
    for (const ago of [40, 30, 20])
      await db
        .insertInto('logins')
        .values({ directory_id: directory.id, address, at: now - ago * SECOND, kind: 'refused', text })
        .execute();
  });
  // Every page of the directory leads there.
  assert.match((await admin.get(`${path}/files`)).text, /<a class="bad" href="[^"]*\/access#why">Login failed/);
  assert.match((await admin.get(`${path}/settings`)).text, />Allow 198\.51\.100\.7</);
  assert.doesNotMatch((await member.get(`${path}/settings`)).text, />Allow 198/);
  assert.match(textOf((await admin.get(`${path}/access`)).text), /Failed 3 times, last .* from 198\.51\.100\.7: right/);
  const asMember = await member.get(`${path}/access`);
  assert.match(textOf(asMember.text), /Ask an admin to add the address to the allowed addresses\./);
  assert.doesNotMatch(asMember.text, /Allow 198/);
  assert.equal((await member.post(`${path}/access/allow`, { address })).status, 403);
  assert.equal((await admin.post(`${path}/access/allow`, { address: 'nowhere' })).status, 422);
  const allowed = await done(admin, `${path}/access/allow`, { address });
  assert.match(textOf(allowed.text), /Logins work|This has been changed since/);
  assert.doesNotMatch(allowed.text, /Allow 198|Login failed|Login problem/);
  assert.deepEqual((await shownByApi(berth, directory, '/access'))['allowed_networks'], [
    '203.0.113.0/24',
    '198.51.100.7/32',
  ]);
});

test('the former addresses of a directory lead to its present pages', async () => {
  await using berth = await shared();
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const path = pathOf(await berth.directory());
  for (const [former, page] of Object.entries({ '': 'files', '/connect': 'access', '/login': 'access' }))
    assert.equal((await member.get(path + former)).headers.location, `${path}/${page}`);
});

test('one line below a directory’s name says how it is, with colour only for what is wrong', async () => {
  await using berth = await shared();
  using member = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  const directory = await berth.directory();
  const line = async (): Promise<string> => {
    const { text } = await member.get(`${pathOf(directory)}/settings`);
    return /<p class="parts quiet status">([^]*?)<\/p>/.exec(text)?.[1] ?? assert.fail(text);
  };
  const fresh = await line();
  assert.match(textOf(fresh), /^No files yet.*0 B.*0 connected.*Webhook not tried yet$/);
  assert.doesNotMatch(fresh, /<a/);
  await onDatabase(berth, ({ db }) =>
    db
      .updateTable('directories')
      .set({ quota_bytes: 2048, storage_bytes: 2048 })
      .where('id', '=', directory.id)
      .execute(),
  );
  assert.match(await line(), /<a class="bad" href="[^"]*settings#quota">Full: 2\.0 KiB of 2\.0 KiB<\/a>/);
});
