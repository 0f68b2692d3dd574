/**
 * Stories whose names sshd's log cuts off, and whose files begin alike: a name of 40 Chinese letters takes 480 of the 500
 * characters. A name is used once, or else by one file of its own that is sent again later, with the same size: what follows
 * sooner may be unknown (docs/limits.md).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../support/long.ts';
import { type Random, randomOf } from './random.ts';
import type { Step } from './session.ts';
import { playStories } from './stories.ts';
import type { Story } from './world.ts';

const STORIES = Number(process.env['STORIES'] ?? rounds(100, 10_000));
const FIRST = Number(process.env['SEED'] ?? 1);
/** Below that, µs, a line is taken to be on time (`LOG_LAG`). An upload that begins and breaks while nobody reads the log is announced. */
const LATEST = 80_000;

const LONG = Buffer.from('字'.repeat(40)).toString('latin1');

function storyOf(seed: number): Story {
  const random = randomOf(seed);
  let names = 0;
  const fresh = (base: string): string => `${base}${LONG}${(names += 1)}`;
  const stepsIn = (base: string, isCut: boolean): Step[] => {
    const path = fresh(base);
    const hold = random(3) === 0 ? random(20_000) : random(200);
    switch (random(11)) {
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
        return [{ kind: 'put', path, hold, between: [{ kind: 'put', path: fresh(base), hold: random(200) }] }];
      case 8: {
        if (isCut) break;
        const own = `${base}${(names += 1)}${LONG}`;
        return [
          { kind: 'put', path: own, hold },
          { kind: 'touch', path: own },
          { kind: 'pause' },
          { kind: 'put', path: own, hold: random(200), like: own },
        ];
      }
      case 9: {
        const own = `${base}${(names += 1)}${LONG}`;
        return Array.from({ length: 2 + random(2) }, () => ({ kind: 'put', path: own, hold: random(200) }));
      }
    }
    return [{ kind: 'put', path, hold }];
  };
  const sessions = Array.from({ length: 1 + random(3) }, (_, index) => {
    const base = `s${index + 1}/`;
    const end = (['quit', 'quit', 'cut', 'killed'] as const)[random(4)] ?? 'quit';
    const steps = Array.from({ length: 1 + random(8) }, () => stepsIn(base, end !== 'quit')).flat();
    return {
      begins: random(3000),
      steps: [{ kind: 'makeFolder' as const, path: `s${index + 1}` }, ...steps],
      end,
    };
  });
  const ends = random(3) === 0 ? [endIn(random)] : [];
  const lag = [1000, 20_000, LATEST][random(3)] ?? 1000;
  return { sessions, lag, shared: 'nothing', ends, byHand: [], byApi: [] };
}

function endIn(random: Random): Story['ends'][number] {
  return { at: 1 + random(30_000), away: 1 + random(LATEST), what: 'serve' };
}

test(
  `${STORIES} stories with names that the log cuts off: every upload is announced once`,
  { timeout: 600_000 },
  async () => assert.equal(await playStories({ first: FIRST, count: STORIES, storyOf }), 0),
);
