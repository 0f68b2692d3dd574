/**
 * Files that an administrator copies in are all found, although the kernel drops events: nobody reads them while this
 * process waits for the copy.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type TestBerth, type TestDirectory, startBerth } from '../support/berth.ts';
import { rounds } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';

/**
 * How long the list may stay as it is while files are missing from it: longer than the pause between two scans, which is nine times
 * as long as a scan (scanner.ts), and a scan takes seconds on a busy machine. The whole takes as long as the machine lets it.
 */
const LONGEST_PAUSE_MS = 120_000;

/** How many events wait for this process at most. */
const QUEUED = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));

/** Writes files 0 to `count` into a folder that is there, a share into each folder below it when there are several. */
const WRITE = `
  const fs = require('node:fs');
  const [folder, count, each] = [process.argv[1], Number(process.argv[2]), Number(process.argv[3])];
  for (let i = 0; i < count; i++) {
    const below = each ? folder + '/' + String(Math.floor(i / each)).padStart(3, '0').split('').join('/') : folder;
    if (each && i % each === 0) fs.mkdirSync(below, { recursive: true });
    try {
      fs.writeFileSync(below + '/' + i, 'data');
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
  }`;

function writer(folder: string, count: number, each = 0): string[] {
  return ['-e', WRITE, folder, String(count), String(each)];
}

/** This process does nothing meanwhile. */
function write(folder: string, count: number, each?: number): void {
  const { status, stderr } = spawnSync(process.execPath, writer(folder, count, each));
  assert.equal(status, 0, stderr.toString());
}

/**
 * Fills the kernel's queue before anybody reads it, so that later events are lost, except for as many as `room` says. Two files in
 * turns: the kernel merges equal events.
 */
function overflow(folder: string, room = 0): void {
  write(folder, 2);
  for (let i = 0; i <= QUEUED - room; i += 1) utimesSync(join(folder, String(i % 2)), 0, i);
}

function filesIn(root: string): string[] {
  const isFile = (path: string): boolean => statSync(join(root, path)).isFile();
  return readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(isFile).toSorted();
}

/** The list is what is on the disk, in the end. */
async function listsAll(berth: TestBerth, directory: TestDirectory): Promise<void> {
  const onDisk = filesIn(directory.files);
  let bytes = -1;
  let listed = new Set<string>();
  let missed = onDisk;
  for (let changedAt = performance.now(); performance.now() - changedAt < LONGEST_PAUSE_MS; await wait(50)) {
    const now = await berth.storage(directory);
    if (now === bytes) continue;
    changedAt = performance.now();
    bytes = now;
    // Each has 4 bytes, and the list itself is long. Some may be of files that are gone.
    if (bytes !== 4 * onDisk.length) continue;
    listed = new Set((await berth.uploads(directory)).map(({ filename }) => filename));
    missed = onDisk.filter((path) => !listed.has(path));
    if (missed.length === 0) break;
  }
  assert.deepEqual([missed.length, listed.size], [0, onDisk.length], `such as ${missed.slice(0, 5).join()}`);
}

/** A folder that is known to be watched. */
async function watchedFolder(berth: TestBerth, directory: TestDirectory): Promise<string> {
  await berth.service().covered;
  const folder = join(directory.files, 'in');
  mkdirSync(folder);
  write(folder, 1);
  await until('a file is listed', async () => (await berth.storage(directory)) === 4);
  return folder;
}

const COPIED = rounds(1000, 10_000);

test(`${COPIED} files at once, of which the kernel reports half`, async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const folder = await watchedFolder(berth, directory);
  // Two events for each: that it is there, and that it has changed.
  overflow(folder, COPIED);
  write(folder, COPIED);
  await listsAll(berth, directory);
});

test('files in many folders within each other, and what comes into those later', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const folder = await watchedFolder(berth, directory);
  overflow(folder);
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
  write(folder, rounds(1000, 4000), 10);
  await listsAll(berth, directory);
  write(join(folder, '0', '9', '9'), rounds(300, 4100));
  await listsAll(berth, directory);
});

test('a folder that is renamed while files are copied into it', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const folder = await watchedFolder(berth, directory);
  const copying = spawn(process.execPath, writer(folder, rounds(1500, 6000)));
  const ended = once(copying, 'exit');
  await until('some are copied', () => readdirSync(folder).length > 300);
  renameSync(folder, `${folder}-renamed`);
  mkdirSync(folder);
  await ended;
  await listsAll(berth, directory);
});

test('files that are removed while others are copied: their rows go', async () => {
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const folder = await watchedFolder(berth, directory);
  const some = rounds(300, 3000);
  write(folder, some);
  await until('a third is listed', async () => (await berth.storage(directory)) > (some / 3) * 4);
  const more = join(directory.files, 'more');
  mkdirSync(more);
  const remove = `for (let i = 0; i < ${some}; i += 2) require('node:fs').rmSync(process.argv[1] + '/' + i)`;
  overflow(more);
  assert.equal(spawnSync(process.execPath, ['-e', remove, folder]).status, 0);
  await listsAll(berth, directory);
});
