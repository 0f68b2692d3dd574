/** Files by HTTPS while their customer swaps folders for links at any moment: nothing outside is read, made or removed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileStat } from '../../src/arrivals/uploads/record/file-stat.ts';
import { hosted } from '../support/hosted.ts';
import { TIMEOUT_SECONDS } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

/** `d` is a folder, then nothing, then a link to the outside, over and over; says how often when it is stopped. */
const SWAPPER = `
const fs = require('node:fs');
const [inside, outside] = process.argv.slice(1);
process.chdir(inside);
let swaps = 0, isOver = false;
process.once('SIGTERM', () => { isOver = true; });
process.stdout.write('begun');
const attempt = (step) => { try { step(); return true; } catch { return false; } };
(function turn() {
  for (let i = 0; i < 50; i++) {
    // What was put into the gap stays; what was there before it goes.
    fs.rmSync('aside', { recursive: true, force: true });
    attempt(() => fs.renameSync('d', 'aside'));
    if (attempt(() => fs.symlinkSync(outside, 'd'))) { fs.unlinkSync('d'); swaps++; }
    attempt(() => fs.renameSync('aside', 'd'));
  }
  if (isOver) process.stdout.write(String(swaps), () => process.exit());
  else setImmediate(turn);
})();
`;

test('PUT, GET and DELETE stay inside while a folder and a link to the outside change places', async (t) => {
  using place = scratch();
  await using api = await hosted(place);
  const { id, sftp_username } = await api.directory();
  const inside = join(place.config.jailDir, sftp_username, 'files');
  const outside = join(place.dir, 'outside');
  for (const folder of [join(inside, 'd'), join(outside, 'deep')]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(outside, 'secret'), 'secret');
  writeFileSync(join(inside, 'd', 'own'), 'own');
  const before = statSync(join(outside, 'secret'));
  // The database claims that a file outside has been uploaded.
  const upload = { directory_id: id, state: 'uploaded', uploaded_at: 1, source: 'log', session_pid: null } as const;
  const claimed = randomUUID();
  const row = { ...upload, id: claimed, path: Buffer.from('d/secret'), ...fileStat(before) };
  await api.database.db.insertInto('files').values(row).execute();

  const swapper = spawn(process.execPath, ['-e', SWAPPER, inside, outside], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(swapper.stdout, 'data');
  const seen = new Map<string, number>();
  const note = (what: string): void => void seen.set(what, (seen.get(what) ?? 0) + 1);
  const placed = (): number => (seen.get('put 200') ?? 0) + (seen.get('put 201') ?? 0);
  // A busy machine needs longer for as much.
  for (const end = Date.now() + TIMEOUT_SECONDS * 1000; Date.now() < end && placed() < 20;) {
    const put = await api.send('PUT', `/directories/${id}/files/d/new/deep/file`, { body: 'x' });
    const over = await api.send('PUT', `/directories/${id}/files/d/secret`, { body: 'x' });
    const get = await api.send('GET', `/directories/${id}/uploads/${claimed}/content`);
    const remove = await api.send('DELETE', `/directories/${id}/uploads/${claimed}`);
    assert.ok(!get.text.includes('secret'));
    for (const [name, { status }] of Object.entries({ put, over, get, remove })) note(`${name} ${status}`);
  }
  swapper.kill();
  const [swaps] = (await once(swapper.stdout, 'data')) as [Buffer];
  await once(swapper, 'exit');
  t.diagnostic(`${String(swaps)} swaps: ${JSON.stringify(Object.fromEntries(seen))}`);
  const after = statSync(join(outside, 'secret'));
  assert.deepEqual(readdirSync(outside, { recursive: true }).map(String).toSorted(), ['deep', 'secret']);
  assert.deepEqual(
    [readFileSync(join(outside, 'secret'), 'utf8'), after.ino, after.ctimeMs],
    ['secret', before.ino, before.ctimeMs],
  );
  assert.deepEqual(readdirSync(join(place.config.jailDir, '.berth', 'transit')), []);
  assert.deepEqual(api.errors(), []);
  assert.ok(Number(swaps) > 500 && placed() >= 20, 'enough happened');
});
