/** Directories from a CSV file: a preview that creates nothing, passwords that are shown once, and no second creation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Plan } from '../../src/foundation/db/schema.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { dashboardOf } from '../support/directory-page.ts';
import { sharedDashboard } from '../support/shared-berth.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { onDatabase } from '../support/users.ts';

const shared = sharedDashboard();

const PATH = '/dashboard/directories/import';

const confirmedIn = ({ text }: { text: string }): string => /name="confirmed" value="([\w-]+)"/.exec(text)?.[1] ?? '';
const countOf = async (user: Visitor): Promise<number> =>
  (await user.get('/dashboard/directories')).text.split('<tr>').length - 2;

test('rows are previewed, created once, and log in with the passwords of the answer', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId, 'member');
  // With a byte order mark, semicolons and CRLF, as a spreadsheet writes it.
  const csv = '\uFEFFName;External ID;Retention days\r\n"Acme; Corp";cust-42;30\r\nקובץ 📄;;\r\n;;\r\n';
  const preview = await user.post(PATH, { csv });
  assert.equal(preview.status, 200);
  assert.match(preview.text, /Create 2 directories\?.*Acme; Corp.*cust-42.*30/s);
  assert.doesNotMatch(preview.text, /data-secret/);
  assert.equal(await countOf(user), -1, 'nothing is there yet: no table');
  const confirmed = confirmedIn(preview);
  const made = await user.post(PATH, { csv, confirmed });
  const rows = decodeURIComponent(/href="data:text\/csv;charset=utf-8,([^"]+)"/.exec(made.text)?.[1] ?? '').split(
    '\r\n',
  );
  assert.equal(rows[0], 'name,external_id,sftp_username,sftp_password');
  assert.match(rows[1] ?? '', /^Acme; Corp,cust-42,acme-corp-\w+,\w{28,}$/);
  assert.equal(rows.length, 4);
  assert.equal(made.headers['cache-control'], 'no-store');

  const [, , username = '', password = ''] = (rows[1] ?? '').split(',');
  const other = await berth.directory();
  await using connection = await berth.connect({ ...other, login: { ...other.login, username, password } });
  await (await sftpSession(connection)).put('a.txt', 'x');

  const again = await user.post(PATH, { csv, confirmed });
  assert.match(again.text, /These rows have not been created again/);
  assert.doesNotMatch(again.text, /data-secret/);
  assert.equal(await countOf(user), 3);
});

test('a preview that is confirmed in two tabs at once creates its rows once, also after they were deleted', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const csv = 'name\nOne\nTwo\n';
  const confirmed = confirmedIn(await user.post(PATH, { csv }));
  const answers = await Promise.all([1, 2, 3].map(() => user.post(PATH, { csv, confirmed })));
  assert.equal(answers.filter(({ text }) => text.includes('2 directories have been created')).length, 1);
  assert.equal(answers.filter(({ text }) => text.includes('have not been created again')).length, 2);
  assert.equal(await countOf(user), 2);
  const { json } = await berth.send('GET', '/directories');
  const { data } = json as { data: { id: string }[] };
  for (const { id } of data) assert.equal((await berth.send('DELETE', `/directories/${id}`)).status, 204);
  assert.match((await user.post(PATH, { csv, confirmed })).text, /have not been created again/);
});

test('a double click without a script, or a lost answer, loses no password: the second answer is the first again', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  using other = await signedIn(dashboardOf(berth), berth.accountId);
  const csv = 'name\nOne\nTwo\n';
  const preview = await user.post(PATH, { csv });
  const [form = ''] = preview.text.split('<form').filter((each) => each.includes('name="confirmed"'));
  const fields = { csv, confirmed: confirmedIn(preview), _form: /name="_form" value="([\w-]+)"/.exec(form)?.[1] ?? '' };
  const answers = await Promise.all([1, 2].map(() => user.post(PATH, fields)));
  const later = await user.post(PATH, fields);
  const passwords = new Set([...answers, later].map(({ text }) => /href="(data:text\/csv[^"]+)"/.exec(text)?.[1]));
  assert.equal(passwords.size, 1);
  assert.match([...passwords][0] ?? '', /sftp_password/);
  assert.equal(await countOf(user), 2);
  // Nobody else gets them.
  const stranger = await other.post(PATH, fields);
  assert.match(stranger.text, /have not been created again/);
  assert.doesNotMatch(stranger.text, /data-secret/);
});

test('errors of the file or a row are reported before anything is created', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  for (const [csv, words] of [
    ['', /Paste or choose a CSV file/],
    ['Acme\nUmbrella', /must name the columns, including &quot;name&quot;/],
    ['name,colour\nAcme,red', /Unknown column &quot;colour&quot;/],
    ['name,name\na,b', /The column &quot;name&quot; appears twice/],
    ['name\n\n', /column names but no rows/],
    [`name\n${'a\n\n'.repeat(101)}`, /more than 100 rows/],
    ['name,description\nA,"open\nB,x\n', /The quotation mark before &quot;open.*is never closed/s],
  ] as const) {
    const { status, text } = await user.post(PATH, { csv });
    assert.equal(status, 422, csv.slice(0, 40));
    assert.match(text, words);
  }
  const wrong = 'name,retention_days,max_connections\nGood,1,1\n,x,5000\n<b>x</b>,,\n';
  for (const more of [{}, { confirmed: '0' }]) {
    const { status, text } = await user.post(PATH, { csv: wrong, ...more });
    assert.equal(status, 422);
    assert.match(text, /Row 2: [^<]*Enter a name\./);
    assert.match(text, /Row 2: [^<]*The number of days must be a whole number\./);
    assert.doesNotMatch(text, /Row [13]:/);
    assert.match(text, /<textarea[^>]*>name,retention_days/, 'with the text, to be corrected');
    assert.ok(!text.includes('<b>x'));
    assert.doesNotMatch(text, /name="confirmed"/);
  }
  assert.equal(await countOf(user), -1);
});

test('rows are neither left out for blank lines, nor cut off at a separator, and may be long', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const blanks = await user.post(PATH, {
    csv: `sep=;\r\nname;description\r\n${'Acme, Inc.;\r\n\r\n;;\r\n'.repeat(100)}`,
  });
  assert.match(blanks.text, /Create 100 directories\?/);
  const cut = await user.post(PATH, { csv: 'name\nAcme, Inc.\n' });
  assert.match(cut.text, /Row 1: This row has more cells/);
  const all = await user.post(PATH, { csv: `name,max_connections\n${'A,x\n'.repeat(100)}` });
  assert.match(all.text, /Row 20: The number of connections must be a whole number\..*More rows are wrong\./s);
  assert.doesNotMatch(all.text, /Row 21:/);
  const long = `${'中'.repeat(40)},${'文'.repeat(60)}\n`;
  const preview = await user.post(PATH, { csv: `name,description\n${long.repeat(100)}` });
  assert.match(preview.text, /Create 100 directories\?/);
  assert.match((await user.post(PATH, { csv: 'x'.repeat(1_048_576) })).text, /The form is over 1024 KiB\. Go back/);
});

test('a hundred rows make a page below 60 KB, and the page names a plan’s limit beforehand', async () => {
  await using berth = await shared();
  using user = await signedIn(dashboardOf(berth), berth.accountId);
  const csv = `name,external_id\n${Array.from({ length: 100 }, (_, index) => `Customer ${index},cust-${index}\n`).join('')}`;
  const made = await user.post(PATH, { csv, confirmed: confirmedIn(await user.post(PATH, { csv })) });
  assert.match(made.text, /100 directories have been created/);
  assert.ok(Buffer.byteLength(made.text) < 60_000, `${Buffer.byteLength(made.text)} bytes`);

  const plan = (name: Plan) =>
    onDatabase(berth, ({ db }) =>
      db.updateTable('accounts').set({ plan: name }).where('id', '=', berth.accountId).execute(),
    );
  await plan('free');
  const full = await user.post(PATH, { csv: 'name\na\n' });
  assert.match(full.text, /Your plan has room for no more directories, but there is 1 row\./);
  await onDatabase(berth, ({ db }) => db.deleteFrom('directories').where('account_id', '=', berth.accountId).execute());
  const more = await user.post(PATH, { csv: 'name\na\nb\n' });
  assert.match(more.text, /Your plan has room for 1 more directory, but there are 2 rows\. Nothing was created\./);
});
