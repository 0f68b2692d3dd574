/**
 * The process dies after each durable step of POSTs with an Idempotency-Key, and the client repeats requests without an
 * answer. There are never two directories and no password is lost, and a client that got an answer gets the same one again.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { verify } from 'unixcrypt';
import type { DirectoryRow } from '../../src/foundation/db/schema.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { issueKey } from '../support/berth.ts';
import { rounds } from '../support/long.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { scratch } from '../support/scratch.ts';
import { hostOf } from '../support/sftp-user.ts';
import type { Answered, Request } from './repeating-child.ts';

const CHILD = fileURLToPath(new URL('./repeating-child.ts', import.meta.url));
const MOST_STEPS = 60;
const SEEDS = rounds(1, 10);

interface Life {
  readonly answers: readonly Answered[];
  /** The step after which it died; undefined when it lived to the end. */
  readonly last: string | undefined;
}

async function repeating() {
  const place = scratch({ BERTH_LOG_LEVEL: 'silent' });
  mkdirSync(place.config.stateDir, { recursive: true });
  const key = await issueKey(place.config);
  return {
    place,
    /** Runs berth until the step after which it dies, while its client sends the requests one by one. */
    async live(step: number | 'never', requests: readonly Request[]): Promise<Life> {
      const child = spawn(process.execPath, [CHILD, String(step), key, JSON.stringify(requests)], {
        env: { ...nodeEnvironment, ...place.environment },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const [output, [code, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
      const lines = output.split('\n').filter((line) => line !== '');
      if (signal !== 'SIGKILL' && lines.at(-1) !== 'finished')
        throw new Error(`it ended with ${String(code)}: ${output}`);
      const answers = lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Answered);
      return { answers, last: signal === 'SIGKILL' ? lines.findLast((line) => !line.startsWith('{')) : undefined };
    },
    async directories(): Promise<DirectoryRow[]> {
      const database = await openDatabase(place.config.database);
      const rows = await database.db.selectFrom('directories').selectAll().where('deleted_at', 'is', null).execute();
      await database.close();
      return rows;
    },
    [Symbol.dispose]: () => place[Symbol.dispose](),
  };
}

const create = (key: string, name = 'Acme'): Request => ['/directories', key, { directory: { name } }];

interface Data {
  readonly id: string;
  readonly sftp_password: string;
}

const dataOf = (answer: Answered | undefined): Data => (JSON.parse(answer?.text ?? '') as { data: Data }).data;

// Side by side: one process at a time dies in each.
void describe('cut off and repeated', { concurrency: true }, () => {
  test('a create, cut off after any step and repeated, makes one directory, with the password that is answered', async (t) => {
    using berth = await repeating();
    const steps: string[] = [];
    for (let step = 1; step < MOST_STEPS; step += 1) {
      const { last } = await berth.live(step, [create(`step-${step}`)]);
      if (last === undefined) break;
      steps.push(last);
    }
    assert.ok(steps.length >= 10, `only ${steps.length} steps`);
    const requests = [...steps, 'none'].map((_, index) => create(`step-${index + 1}`));
    const { answers } = await berth.live('never', [...requests, ...requests]);
    const rows = await berth.directories();
    const paths = pathsOf(berth.place.config);
    await using host = hostOf(paths);
    const ids = answers.map((answer) => dataOf(answer).id);
    assert.deepEqual(
      rows.map(({ id }) => id).toSorted(),
      [...new Set(ids)].toSorted(),
      'no key answers for two or none',
    );
    assert.equal(rows.length, requests.length);
    for (const [index, last] of steps.entries()) {
      await t.test(`after step ${index + 1}, ${last}`, () => {
        const [first, again] = [answers[index], answers[index + requests.length]];
        assert.deepEqual([first?.status, again], [201, first]);
        const { id, sftp_password } = dataOf(first);
        const row = rows.find((each) => each.id === id);
        assert.ok(row && host.isApplied(row));
        assert.ok(verify(sftp_password, row.password_hash));
      });
    }
  });

  test('any sequence of requests and crashes: an answer stays the same, and each key did one thing', async () => {
    for (let seed = 11; seed < 11 + SEEDS; seed += 1) {
      using berth = await repeating();
      let state = seed;
      const below = (limit: number): number => {
        state = (state * 48_271) % 2_147_483_647;
        return state % limit;
      };
      const bodies = new Map<string, Request>();
      const seen = new Map<string, Answered>();
      for (let life = 0; life < 4; life += 1) {
        const requests = Array.from({ length: 4 }, () => {
          const key = `key-${below(5)}`;
          const request = bodies.get(key) ?? create(key, `Name ${below(3)}`);
          bodies.set(key, request);
          return request;
        });
        const { answers } = await berth.live(1 + below(30), requests);
        for (const answer of answers) {
          assert.deepEqual(answer, seen.get(answer.key) ?? { ...answer, status: 201 }, `seed ${seed}`);
          seen.set(answer.key, answer);
        }
      }
      const all = [...bodies.values()];
      const renewed: Request[] = [];
      const { answers } = await berth.live('never', all);
      for (const answer of answers) assert.deepEqual(answer, seen.get(answer.key) ?? { ...answer, status: 201 });
      const rows = await berth.directories();
      assert.equal(rows.length, bodies.size, `seed ${seed}`);
      for (const answer of answers) {
        const { id, sftp_password } = dataOf(answer);
        assert.ok(verify(sftp_password, rows.find((row) => row.id === id)?.password_hash ?? ''));
        renewed.push([`/directories/${id}/password`, `new-${answer.key}`, {}]);
      }
      await renewals(berth, renewed, below);
    }
  });
});

/** New passwords, with deaths: the one that the last answer shows is in force. */
async function renewals(
  berth: Awaited<ReturnType<typeof repeating>>,
  requests: readonly Request[],
  below: (limit: number) => number,
): Promise<void> {
  const seen = new Map<string, string>();
  for (const step of [1 + below(6), 1 + below(12), 'never'] as const) {
    const { answers } = await berth.live(step, requests);
    for (const { key, status, text: body } of answers) {
      assert.deepEqual([status, body], [200, seen.get(key) ?? body]);
      seen.set(key, body);
    }
  }
  const rows = await berth.directories();
  for (const body of seen.values()) {
    const { id, sftp_password } = (JSON.parse(body) as { data: Data }).data;
    assert.ok(verify(sftp_password, rows.find((row) => row.id === id)?.password_hash ?? ''));
  }
  assert.equal(seen.size, requests.length);
}
