/**
 * Stories that seeds make up: several sessions put, append, rename, remove and drop files at once, under a log that is read
 * late, and the real recorder writes rows on a real database. Rows come to agree with the disk, and in orderly stories every
 * upload is announced once, under its name. Where sessions use the same names at once, the order of the log is not the one
 * in which the kernel did things, and nobody can tell who wrote what.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../support/long.ts';
import type { ApiStep } from './api.ts';
import type { HandStep } from './hands.ts';
import { type Random, randomOf } from './random.ts';
import type { Opening, Step, Writing } from './steps.ts';
import { playStories } from './stories.ts';
import type { Story } from './world.ts';

const STORIES = Number(process.env['STORIES'] ?? rounds(300, 20_000));
/** The same stories in every run; another `SEED` plays others. */
const FIRST = Number(process.env['SEED'] ?? 1);
const MOST = { sessions: 3, steps: 12, stepsTogether: 40 };
const FOLDERS = ['', '', 'd/', 'e/', 't.part/'];
const NAMES = ['a', 'b', 'x.part'];

/** Where a session works. */
interface Place {
  /** The folder, with a slash; '' for the one that all share. */
  readonly base: string;
  /** How its names begin. */
  readonly prefix: string;
}

function pathIn({ base, prefix }: Place, random: Random): string {
  return base + (FOLDERS[random(FOLDERS.length)] ?? '') + prefix + (NAMES[random(NAMES.length)] ?? 'a');
}

const KINDS = [
  'put', 'put', 'put', 'put', 'put', 'put', 'append', 'rename', 'rename', 'replace', 'replace', 'remove', 'drop',
  'makeFolder', 'makeFolder', 'removeFolder', 'moveFolder', 'stat', 'badHandle', 'resize', 'resizeToOwn', 'touch',
  'putAndRename', 'putAndRename', 'putAgain', 'putAgain', 'putAgainAndRename',
] as const; // prettier-ignore

const OPENINGS: readonly Opening[] = [
  'truncate', 'truncate', 'truncate', 'truncate', 'exclusive', 'exclusiveThenTruncate', 'exclusiveThenTruncate', 'denied',
]; // prettier-ignore

const WRITINGS: readonly Writing[] = ['whole', 'whole', 'whole', 'whole', 'whole', 'sparse', 'gap', 'short', 'refused'];

/** A put, and what may go wrong with it. */
function putStep(place: Place, path: string, hold: number, random: Random): Step {
  const opening = OPENINGS[random(OPENINGS.length)] ?? 'truncate';
  const writing = WRITINGS[random(WRITINGS.length)] ?? 'whole';
  const count = random(3) === 0 ? 1 + random(3) : 0;
  const between = Array.from({ length: count }, () => betweenWrites(place, random));
  return { kind: 'put', path, hold, opening, writing, between, isTwice: random(10) === 0 };
}

/** Another content of the size, and usually of the time, of the file at `like`; it may be cut off. */
function putAgain(path: string, like: string, hold: number, random: Random): Step & { kind: 'put' } {
  const opening = random(2) === 0 ? 'inPlace' : 'truncate';
  return { kind: 'put', path, like, hold, opening, isDatedLike: random(4) > 0, isLeft: random(3) === 0 };
}

/** What a session asks for while a file is open. */
function betweenWrites(place: Place, random: Random): Step {
  const { base, prefix } = place;
  const kinds = [
    'makeFolder', 'makeFolder', 'removeFolder', 'remove', 'rename', 'stat', 'put', 'resizeOpen',
  ] as const; // prettier-ignore
  const kind = kinds[random(kinds.length)] ?? 'stat';
  const folder = base + (['d', 'e', 'd/g', 't.part'][random(4)] ?? 'd');
  switch (kind) {
    case 'makeFolder':
    case 'removeFolder':
      return { kind, path: folder };
    case 'resizeOpen':
      return { kind };
    case 'rename':
      return { kind, path: pathIn(place, random), to: pathIn(place, random) };
    case 'put': {
      const opening = random(2) === 0 ? 'exclusive' : 'truncate';
      return { kind, path: pathIn(place, random), hold: random(200), opening };
    }
    case 'remove':
      return { kind, path: random(2) === 0 ? folder : pathIn(place, random) };
    case 'stat':
      // A refusal that answers nothing that is logged is that of a handle, which only the session itself can harm.
      return base + prefix === '' && random(2) === 0
        ? { kind: 'badHandle', path: folder }
        : { kind, path: pathIn(place, random) };
  }
}

function stepsIn(place: Place, random: Random): Step[] {
  const { base, prefix } = place;
  const drawn = KINDS[random(KINDS.length)] ?? 'put';
  // sshd does not log a request about a handle that is not open. Its refusal looks like that of the rename or the open
  // before it. No real client does that, and it would harm nobody else.
  const kind = drawn === 'badHandle' && base + prefix !== '' ? 'stat' : drawn;
  const path = pathIn(place, random);
  const hold = random(3) === 0 ? random(20_000) : random(200);
  switch (kind) {
    case 'put':
      return [putStep(place, path, hold, random)];
    case 'append':
      return [{ kind: 'put', path, hold, opening: 'append' }];
    case 'drop':
      return [{ kind: 'put', path, hold, isLeft: true }];
    case 'putAndRename': {
      const to = pathIn(place, random);
      return [putStep(place, `${path}.part`, hold, random), { kind: 'replace', path: `${path}.part`, to }];
    }
    case 'putAgain': {
      const again = putAgain(path, path, hold, random);
      if (random(4) > 0) return [again];
      // Only the ctime shows that it was written, if the process dies.
      const late = { ...again, opening: 'inPlace', isDatedLike: true, isLeft: true } as const;
      return [{ kind: 'put', path, hold: 0 }, { kind: 'pause' }, late];
    }
    case 'putAgainAndRename': {
      const again = { ...putAgain(`${path}.part`, path, hold, random), opening: 'truncate' } as const;
      return [again, { kind: 'replace', path: `${path}.part`, to: path }];
    }
    case 'rename':
    case 'replace':
      return [{ kind, path, to: pathIn(place, random) }];
    case 'moveFolder': {
      const from = base + (['d', 'e', 't.part'][random(3)] ?? 'd');
      return [{ kind: 'replace', path: from, to: base + (['d', 'e', 'f', 'd/g'][random(4)] ?? 'f') }];
    }
    case 'makeFolder':
    case 'removeFolder':
      return [{ kind, path: base + (['d', 'e', 'd/g', 't.part'][random(4)] ?? 'd') }];
    case 'remove':
    case 'stat':
    case 'badHandle':
    case 'resize':
    case 'resizeToOwn':
    case 'touch':
      return [{ kind, path }];
  }
}

function handSteps(base: string, random: Random): HandStep[] {
  return Array.from({ length: 1 + random(5) }, () => {
    const at = 1 + random(4_000_000);
    const path = pathIn({ base, prefix: '' }, random);
    const kind = (['copy', 'copy', 'move', 'delete', 'makeFolder'] as const)[random(5)] ?? 'copy';
    if (kind === 'move') return { kind, at, path, to: pathIn({ base, prefix: '' }, random) };
    return { kind, at, path: kind === 'makeFolder' ? `${base}d` : path };
  });
}

function apiSteps(base: string, random: Random): ApiStep[] {
  return Array.from({ length: 1 + random(5) }, () => {
    const kind = (['put', 'put', 'delete', 'deleteLater', 'deleteLater'] as const)[random(5)] ?? 'put';
    return { kind, at: 1 + random(4_000_000), path: pathIn({ base, prefix: '' }, random) };
  });
}

function endsIn(random: Random): Story['ends'] {
  const serve = Array.from({ length: 1 + random(2) }, () => {
    return {
      at: 1 + random(random(2) === 0 ? 30_000 : 3_000_000),
      away: 1 + random(3_000_000),
      what: 'serve' as const,
    };
  });
  const power = { at: 1 + random(random(2) === 0 ? 30_000 : 3_000_000), away: 5_000_000, what: 'power' as const };
  return random(3) === 0 ? [...serve, power] : serve;
}

/** One story in three shares folders, in which each session has names of its own, and one shares names. */
function storyOf(seed: number): Story {
  const random = randomOf(seed);
  const shared = (['nothing', 'folders', 'names'] as const)[seed % 3] ?? 'nothing';
  const isOrderly = shared === 'nothing';
  const sessions = Array.from({ length: 1 + random(MOST.sessions) }, (_, index) => {
    const base: Place = {
      base: isOrderly ? `s${index + 1}/` : '',
      prefix: shared === 'folders' ? `s${index + 1}-` : '',
    };
    const first: Step[] = isOrderly ? [{ kind: 'makeFolder', path: `s${index + 1}` }] : [];
    const begins = random(random(3) === 0 ? 4_000_000 : 3000);
    if (shared === 'folders')
      first.push(...['d', 'e', 'd/g', 't.part'].map((path) => ({ kind: 'makeFolder' as const, path })));
    const most = shared === 'folders' ? MOST.stepsTogether : MOST.steps;
    const steps = [...first, ...Array.from({ length: 1 + random(most) }, () => stepsIn(base, random)).flat()];
    const end = (['quit', 'quit', 'cut', 'killed'] as const)[random(4)] ?? 'quit';
    return { begins, steps, end };
  });
  const handFolder = isOrderly ? 'hand/' : '';
  const apiFolder = isOrderly ? 'api/' : '';
  const has = (one: number): boolean => random(one) === 0;
  const byHand: HandStep[] = has(2) && shared !== 'folders' ? handSteps(handFolder, random) : [];
  const byApi: ApiStep[] = has(2) && shared !== 'folders' ? apiSteps(apiFolder, random) : [];
  if (isOrderly) byHand.unshift(...['hand', 'api'].map((path) => ({ kind: 'makeFolder' as const, at: 0, path })));
  const ends = has(2) && shared !== 'folders' ? endsIn(random) : [];
  const lags = shared === 'folders' ? [1000, 20_000] : [1000, 20_000, 500_000];
  const isConsumed = has(2) && shared !== 'folders';
  return { sessions, lag: lags[random(lags.length)] ?? 1000, shared, ends, byHand, byApi, isConsumed };
}

test(
  `${STORIES} stories: rows agree with the disk, and every upload is announced once`,
  { timeout: 600_000 },
  async () => assert.equal(await playStories({ first: FIRST, count: STORIES, storyOf }), 0),
);
