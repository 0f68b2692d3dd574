/** The Files page shows what is held back, and lets admins decide. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBerth, webhookOf } from '../support/berth.ts';
import { signedIn } from '../support/dashboard.ts';
import { questionIn } from '../support/directory-page.ts';
import { until } from '../support/poll.ts';
import { rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { checkedScratch, checkPlace, fakeClamd } from './check-place.ts';

test('rejected files are shown with their reason; an admin releases or deletes each, and a member cannot', async () => {
  const { place, socket } = checkedScratch({
    BERTH_DASHBOARD: 'on',
    BERTH_CHECK_MAX_MIB: '1',
    BERTH_LOG_LEVEL: 'silent',
  });
  using _ = place;
  await using _clamd = await fakeClamd(socket);
  await using at = await checkPlace(place);
  const { berth, directory } = at;
  const where = { config: berth.config, port: berth.service().dashboardPort ?? 0 };
  using admin = await signedIn(where, berth.accountId, 'admin');
  using member = await signedIn(where, berth.accountId, 'member');
  const path = `/dashboard/directories/${directory.id}`;
  assert.doesNotMatch((await admin.get(`${path}/files`)).text, /Held back/);
  await at.put('<b>one', 'a bad one');
  await at.put('two', 'a bad one');
  await at.untilHeld(
    'both are rejected',
    (held) => held.length === 2 && held.every(({ state }) => state === 'rejected'),
  );
  const held = await at.held();
  const one = held.find(({ filename }) => filename === '<b>one')?.id ?? '';
  const two = held.find(({ filename }) => filename === 'two')?.id ?? '';
  const { text } = await admin.get(`${path}/files`);
  assert.match(text, /<h2>Held back<\/h2>.*&lt;b&gt;one.*Rejected: Bad-Signature/s);
  assert.match(text, new RegExp(`action="quarantine/${one}/release"`));
  const seen = await member.get(`${path}/files`);
  assert.match(seen.text, /Held back/);
  assert.doesNotMatch(seen.text, /quarantine\/[\w-]+\/release/);
  assert.equal((await member.post(`${path}/quarantine/${one}/release`, {})).status, 403);
  assert.equal((await member.post(`${path}/quarantine/${one}/delete`, {})).status, 403);

  const question = await admin.post(`${path}/quarantine/${one}/release`, questionIn(text, 'Release', '<b>one'));
  assert.match(question.text, /Release: &lt;b&gt;one.*a webhook is sent/s);
  assert.equal((await at.held()).length, 2, 'it was only asked');
  const released = await admin.post(`${path}/quarantine/${one}/release`, {});
  assert.equal(released.status, 303);
  assert.match((await admin.get(String(released.headers['location']))).text, /The file is back at its path/);
  assert.equal(webhookOf(await berth.receiver.next()).filename, '<b>one');
  const other = await admin.post(`${path}/quarantine/${two}/delete`, questionIn(text, 'Delete'));
  assert.match(other.text, /This can’t be undone/);
  assert.equal((await admin.post(`${path}/quarantine/${two}/delete`, {})).status, 303);
  assert.equal((await admin.post(`${path}/quarantine/${two}/release`, {})).status, 404);
  assert.deepEqual(await at.held(), []);
  assert.doesNotMatch((await admin.get(`${path}/files`)).text, /Held back/);
  assert.equal(berth.receiver.requests.length, 1);
  await at.put('large', Buffer.alloc(1024 * 1024 + 1));
  await at.untilHeld('it cannot be checked', ([file]) => typeof file?.reason === 'string');
  const waiting = (await member.get(`${path}/files`)).text;
  assert.match(waiting, /large.*Could not be checked: the file is larger than BERTH_CHECK_MAX_MIB/s);
  const activity = (await admin.get(`${path}/activity`)).text;
  assert.match(activity, />released<\/bdi> /);
});

test('a file whose name may still change is held back, which is no second upload, and no check', async () => {
  using place = scratch({ BERTH_DASHBOARD: 'on', BERTH_SETTLE_SECONDS: '3600' });
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  using admin = await signedIn(
    { config: berth.config, port: berth.service().dashboardPort ?? 0 },
    berth.accountId,
    'admin',
  );
  const path = `/dashboard/directories/${directory.id}`;
  const sftp = await rawSftp(await berth.connect(directory));
  assert.ok(await sftp.put('report.csv', 'data'));
  let files = '';
  await until('it is held back', async () => (files = (await admin.get(`${path}/files`)).text).includes('Held back'));
  assert.match(files, /Its name may still change/);
  assert.match((await admin.get(`${path}/files?folder=`)).text, /report\.csv<.*>held back</s);
  const id = /quarantine\/([\w-]+)\/release/.exec(files)?.[1];
  assert.equal((await admin.post(`${path}/quarantine/${id}/release`, {})).status, 303);
  assert.equal(webhookOf(await berth.receiver.next()).filename, 'report.csv');
  const activity = (await admin.get(`${path}/activity`)).text.replaceAll(/<[^>]*>/g, '');
  assert.match(
    activity,
    /1 file uploaded, 1 sent\s*uploaded report\.csv \(4 B\) webhook\s*sent report\.csv, which was held back \(4 B\)/,
  );
});
