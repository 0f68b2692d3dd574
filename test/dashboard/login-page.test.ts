/** Why a customer cannot log in: the state in the header of every tab, the Login page's checks, and what is sent to the customer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY, SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import { explain } from '../../src/operating/reports/explain.ts';
import type { SshdLog } from '../../src/operating/reports/sshd-log.ts';
import { signedIn } from '../support/dashboard.ts';
import { dashboardOf, done, passwordIn, pathOf, unescaped } from '../support/directory-page.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { onDatabase } from '../support/users.ts';
import { textOf } from './webhook-place.ts';

const shared = sharedDashboard();

const TABS = ['', '/connect', '/login', '/files', '/webhook', '/activity', '/settings'];

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
      new RegExp(`suspended.*Suspended .*UTC by ${admin.email}\\. Nobody can log in\\.Resume`),
      tab,
    );
    const seen = await member.get(path + tab);
    assert.match(textOf(seen.text), /Nobody can log in\./, tab);
    assert.doesNotMatch(seen.text, />Resume</, tab);
  }
  const resumed = await done(admin, `${path}/resume`, { tab: 'Files' });
  assert.match(textOf(resumed.text), /^Files · .*Resumed\. Customers can log in again\./);
  for (const tab of TABS) assert.match((await admin.get(path + tab)).text, /class="badge good">live</, tab);

  await done(admin, `${path}/auth-mode`, { auth_mode: 'public_key' });
  for (const tab of TABS)
    assert.match(
      textOf((await admin.get(path + tab)).text),
      /no one can log in.*has none\. Nobody can log in\.Add a key/,
      tab,
    );
  assert.match(textOf((await admin.get('/dashboard/directories')).text), /no one can log in/);
  await done(admin, `${path}/auth-mode`, { auth_mode: 'password' });

  await done(admin, `${path}/access`, { expires_at: '2001-01-01T00:00' });
  for (const tab of TABS)
    assert.match(textOf((await admin.get(path + tab)).text), /expired.*Expired 2001-01-01 .*Change the expiry/, tab);
});

test('the Login page says what stops a login, and what to do about the last refusal', async () => {
  await using berth = await shared();
  using admin = await signedIn(dashboardOf(berth), berth.accountId);
  const directory = await berth.directory();
  const path = pathOf(directory);
  const why = async (): Promise<string> => {
    const { text } = await admin.get(`${path}/login`);
    return textOf(/<section class="card" id="why">([^]*?)<\/section>/.exec(text)?.[1] ?? '');
  };
  assert.match(
    await why(),
    /not suspended\.It does not expire\..*every network\.The password works\..*Nobody has tried/,
  );

  await done(admin, `${path}/auth-mode`, { auth_mode: 'public_key' });
  await done(admin, `${path}/access`, { expires_at: '2001-01-01T00:00', allowed_networks: '203.0.113.0/24' });
  assert.match(
    await why(),
    /It expired at 2001-01-01 00:00 UTC\. Set a later.*only from 203\.0\.113\.0\/24\..*No public key has been added\. Add/,
  );
  // `berth explain` says the same.
  const nowhere: SshdLog = {
    linesNaming: async () => undefined,
    beginning: async () => undefined,
    async *linesSince() {},
  };
  const { notes } = await onDatabase(berth, (database) =>
    explain({ database, log: nowhere, node: '', now: systemClock().now() }, directory.id, { since: 0, limit: 10 }),
  );
  const said = await why();
  for (const note of notes.filter((each) => !each.startsWith('refused logins')))
    assert.ok(said.includes(note.replace(/^[^:]*: /, '')), note);
  assert.match(
    notes.join('\n'),
    /nobody can log in: It expired.*\nsome logins are refused: .*203\.0\.113\.0.*\nsome logins are refused: Only a public key.*\nnobody can log in: No public key/,
  );

  const now = systemClock().now();
  const attempt = { directory_id: directory.id, address: '198.51.100.7' };
  await onDatabase(berth, ({ db }) =>
    db
      .insertInto('logins')
      .values({ ...attempt, at: now - DAY, kind: 'refused', text: 'wrong password' })
      .execute(),
  );
  assert.match(
    await why(),
    /Last refused .* from 198\.51\.100\.7: wrong password\. Create a new password, and send it/,
  );
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
  const copied = (html: string): string =>
    unescaped(/data-copy="(Protocol:[^"]*)"/.exec(html)?.[1] ?? assert.fail('nothing to copy'));
  const shown = await admin.submit(`${path}/password`);
  const password = passwordIn(shown) ?? '';
  assert.match(
    copied(shown.text),
    new RegExp(`Username: +${directory.username}\nPassword: +${password}\nFingerprint: +SHA256:`),
  );
  const later = await admin.get(`${path}/connect`);
  assert.match(copied(later.text), /Password: +sent separately\n/);

  const file = await admin.get(`${path}/connect/instructions.txt`);
  assert.equal(file.headers['content-disposition'], 'attachment; filename="sftp-acme-invoices.txt"');
  assert.match(file.text, new RegExp(`Host: +127\\.0\\.0\\.1\nPort: +${berth.config.sftp.port}\n`));
  assert.ok(file.text.includes('Password:     sent separately') && !file.text.includes(password));
  await done(admin, `${path}/auth-mode`, { auth_mode: 'public_key' });
  assert.match((await admin.get(`${path}/connect/instructions.txt`)).text, /Log in with: +your private key/);
});
