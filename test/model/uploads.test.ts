/**
 * Stories that seeds make up: several sessions put, append, rename, remove and drop files at once, under a log that is read
 * late, and the real recorder writes rows on a real database. Rows come to agree with the disk, and every upload is
 * announced once.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../src/db/open.ts';
import { JailQueries } from '../../src/uploads/jails.ts';
import { fill } from '../bench/filled.ts';
import { firstAccount } from '../bench/served.ts';
import { scratch } from '../support/scratch.ts';
import { type Random, randomOf } from './random.ts';
import type { Step } from './session.ts';
import { playStory, type Story } from './world.ts';

const STORIES = Number(process.env['STORIES'] ?? 300);
const FIRST = Number(process.env['SEED'] ?? Date.now() % 1_000_000_000);
const MOST = { sessions: 3, steps: 12 };
const FOLDERS = ['', '', 'd/', 'e/'];
const NAMES = ['a', 'b', 'x.part'];

function pathFor(random: Random, pid: number): string {
  const name = NAMES[random(NAMES.length)] ?? 'a';
  const folder = FOLDERS[random(FOLDERS.length)] ?? '';
  return folder + (random(2) === 0 ? `s${pid}-${name}` : name);
}

const KINDS = [
  'put', 'put', 'put', 'put', 'append', 'rename', 'rename', 'replace', 'replace', 'remove', 'drop', 'makeFolder',
  'makeFolder', 'moveFolder', 'stat', 'badHandle', 'resize', 'touch', 'putAndRename', 'putAndRename',
] as const; // prettier-ignore

function stepsFor(random: Random, pid: number): Step[] {
  const kind = KINDS[random(KINDS.length)] ?? 'put';
  const path = pathFor(random, pid);
  const hold = random(3) === 0 ? random(20_000) : random(200);
  switch (kind) {
    case 'put':
    case 'append':
    case 'drop':
      return [{ kind, path, hold }];
    case 'putAndRename': {
      const to = pathFor(random, pid);
      return [
        { kind: 'put', path: `${path}.part`, hold },
        { kind: 'replace', path: `${path}.part`, to },
      ];
    }
    case 'rename':
    case 'replace':
      return [{ kind, path, to: pathFor(random, pid) }];
    case 'moveFolder':
      return [{ kind: 'replace', path: random(2) === 0 ? 'd' : 'e', to: ['d', 'e', 'f', 'd/g'][random(4)] ?? 'f' }];
    case 'makeFolder':
      return [{ kind, path: ['d', 'e', 'd/g'][random(3)] ?? 'd' }];
    case 'remove':
    case 'stat':
    case 'badHandle':
    case 'resize':
    case 'touch':
      return [{ kind, path }];
  }
}

function storyOf(seed: number): Story {
  const random = randomOf(seed);
  const sessions = Array.from({ length: 1 + random(MOST.sessions) }, (_, index) => ({
    begins: random(3000),
    steps: Array.from({ length: 1 + random(MOST.steps) }, () => stepsFor(random, index + 1)).flat(),
    end: (['quit', 'quit', 'cut', 'killed'] as const)[random(4)] ?? 'quit',
  }));
  return { sessions, lag: [1000, 20_000, 500_000][random(3)] ?? 1000 };
}

test(
  `${STORIES} stories: rows agree with the disk, and every upload is announced once`,
  { timeout: 600_000 },
  async () => {
    using place = scratch();
    const { config } = place;
    await fill(config, await firstAccount(config), { directories: STORIES, filesEach: 0 });
    const database = await openDatabase(config.database);
    await using parts = new AsyncDisposableStack();
    parts.defer(() => database.close());
    const jails = await new JailQueries(database.reads, config.node).after('', STORIES);
    let failures = 0;
    const wanted = Number(process.env['FAILURES'] ?? 1);
    for (const [index, jail] of jails.entries()) {
      const seed = FIRST + index;
      const faults = await playStory(storyOf(seed), database, jail, randomOf(seed ^ 0x5bd1e995));
      if (faults.length === 0) continue;
      failures += 1;
      console.log(`STORIES=1 SEED=${seed}\n${(failures <= wanted ? faults : faults.slice(0, 1)).join('\n')}`);
    }
    assert.equal(failures, 0);
  },
);
