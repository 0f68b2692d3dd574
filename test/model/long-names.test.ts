/**
 * Stories whose names sshd's log cuts off, and whose files begin alike: a name of 40 Chinese letters takes 480 of the 500
 * characters. A name is used once, or else by one file of its own that is sent again later, with the same size: what follows
 * sooner may be unknown (docs/limits.md).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../support/long.ts';
import { type Random, randomOf } from './random.ts';
import type { Step } from './steps.ts';
import { playStories } from './stories.ts';
import type { Story } from './world.ts';

const STORIES = Number(process.env['STORIES'] ?? rounds(100, 10_000));
const FIRST = Number(process.env['SEED'] ?? 1);
/** Below that, µs, a line is taken to be on time (`LOG_LAG`). An upload that begins and breaks while nobody reads the log is announced. */
const LATEST = 80_000;

/** After the sessions that begin first, and after their ends have been noticed, in µs. */
const LATER = 12_000_000;

/** How many letters a name begins with: the log cuts it off behind its end, or before. */
const LETTERS = [40, 43];
/** How much longer than the log may be late a file is open, in µs, if nothing but the kernel tells it from others. */
const SHOWN = 5000;

/** As berth keeps paths: one character for each byte. */
function toLatin1(name: string): string {
  return Buffer.from(name).toString('latin1');
}

type Session = Story['sessions'][number];

function storyOf(seed: number): Story {
  const random = randomOf(seed);
  const lag = [1000, 20_000, LATEST][random(3)] ?? 1000;
  const ends = random(3) === 0 ? [endIn(random)] : [];
  const latest = lag + (ends[0]?.away ?? 0);
  const letters = LETTERS[random(LETTERS.length)] ?? 40;
  const long = toLatin1('字'.repeat(letters));
  const atOnce = (): number => (letters === 40 ? 0 : latest + SHOWN) + random(200);
  let names = 0;
  const fresh = (base: string): string => `${base}${long}${(names += 1)}`;
  const stepsIn = (base: string, isCut: boolean): Step[] => {
    const path = fresh(base);
    const hold = atOnce() + (random(3) === 0 ? random(20_000) : 0);
    switch (random(14)) {
      case 12:
      case 13: {
        if (isCut) break;
        // The log cuts off the second name of the rename.
        const own = `${base}${(names += 1)}${'字'.repeat(20)}`;
        const sent = (like?: string): Step[] => [
          {
            kind: 'put',
            path: `${toLatin1(own)}.part`,
            hold,
            isDated: true,
            ...(like !== undefined && { like, isDatedLike: true }),
          },
          { kind: 'replace', path: `${toLatin1(own)}.part`, to: toLatin1(own) },
          { kind: 'pause' },
        ];
        return [...sent(), ...sent(toLatin1(own)), ...sent(toLatin1(own))];
      }
      case 0:
        return [{ kind: 'put', path, hold, isLeft: true }];
      case 1:
      case 2:
        return [
          { kind: 'put', path: `${path}.part`, hold },
          { kind: 'replace', path: `${path}.part`, to: path },
        ];
      case 3:
        return [{ kind: 'put', path: `${base}short${names}`, hold }];
      case 4:
        return [
          { kind: 'put', path, hold },
          { kind: 'touch', path },
        ];
      case 5:
        return [{ kind: 'put', path, hold, writing: 'refused' }];
      case 6:
        return [
          { kind: 'put', path, hold },
          { kind: 'rename', path, to: fresh(base) },
        ];
      case 7:
        return [{ kind: 'put', path, hold, between: [{ kind: 'put', path: fresh(base), hold: atOnce() }] }];
      case 8: {
        if (isCut) break;
        const own = `${base}${(names += 1)}${long}`;
        return [
          { kind: 'put', path: own, hold },
          { kind: 'touch', path: own },
          { kind: 'pause' },
          { kind: 'put', path: own, hold: atOnce(), like: own, isDatedLike: random(2) === 0 },
        ];
      }
      case 11: {
        if (isCut) break;
        // A client reads what it has sent. If it sends it again at once, nobody can tell which handle is closed first.
        const own = `${base}${(names += 1)}${long}`;
        const again: Step[] = [{ kind: 'pause' }, { kind: 'put', path: own, hold: atOnce() }];
        return [{ kind: 'put', path: own, hold }, { kind: 'read', path: own }, ...(random(2) === 0 ? again : [])];
      }
      case 9: {
        const own = `${base}${(names += 1)}${long}`;
        return Array.from({ length: 2 + random(2) }, () => ({ kind: 'put', path: own, hold: atOnce() }));
      }
    }
    return [{ kind: 'put', path, hold, isDated: random(3) === 0 }];
  };
  const sessions = Array.from({ length: 1 + random(3) }, (_, index): Session[] => {
    const base = `s${index + 1}/`;
    const end = (['quit', 'quit', 'cut', 'killed'] as const)[random(4)] ?? 'quit';
    const steps = Array.from({ length: 1 + random(8) }, () => stepsIn(base, end !== 'quit')).flat();
    const folder = { kind: 'makeFolder', path: `s${index + 1}` } as const;
    const first = { begins: random(3000), steps: [folder, ...steps], end };
    if (end === 'quit' || random(2) === 0) return [first];
    // What was cut off is sent again as a whole, in a later session, and maybe once more.
    const path = `${base}${(names += 1)}${long}`;
    const again = Array.from({ length: 1 + random(3) }, (): Step[] => [
      { kind: 'put', path, hold: random(2) === 0 ? LATEST + atOnce() : atOnce(), isDated: random(3) > 0 },
      { kind: 'pause' },
    ]);
    const left: Step = { kind: 'put', path, hold: atOnce(), isLeft: true };
    return [
      { ...first, steps: [...first.steps, left] },
      { begins: LATER + random(3000), steps: again.flat(), end: 'quit' },
    ];
  }).flat();
  return { sessions, lag, shared: 'nothing', ends, byHand: [], byApi: [], isConsumed: false };
}

function endIn(random: Random): Story['ends'][number] {
  return { at: 1 + random(30_000), away: 1 + random(LATEST), what: 'serve' };
}

test(
  `${STORIES} stories with names that the log cuts off: every upload is announced once`,
  { timeout: 600_000 },
  async () => assert.equal(await playStories({ first: FIRST, count: STORIES, storyOf }), 0),
);
