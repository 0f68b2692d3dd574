/**
 * Storms: several sessions put, rename, remove, truncate and drop files in folders that they rename under each other's
 * feet, all at once. Whatever happened, list, bytes and webhooks come to agree with the disk.
 */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { startBerth, type TestBerth, type TestDirectory, webhookOf } from '../support/berth.ts';
import { rounds } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, NO_ATTRIBUTES, rawSftp, type RawSftp } from '../support/raw-sftp.ts';
import type { Connection } from '../support/sftp-client.ts';
import { scratch } from '../support/scratch.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? rounds(12, 200));
/** Directories that have their storm at the same time. */
const TOGETHER = 8;
const SESSIONS = 3;
const OPERATIONS = 40;
/** How long after a storm all may take to agree, in s: less than 5 on a machine that has nothing else to do. */
const TIMEOUT_SECONDS = Number(process.env['TIMEOUT_SECONDS'] ?? 120);

const FOLDERS = ['d', 'e', 'f', 'd/g', 'e/g'];
const NAMES = ['a', 'b', 'c', 'x.part', 'y.tmp'];

const operation = fc.record({
  kind: fc.constantFrom(
    'put',
    'put',
    'put',
    'put',
    'rename',
    'rename',
    'replace',
    'replace',
    'remove',
    'truncate',
    'drop',
    'renameFolder',
    'renameFolder',
    'replaceFolder',
    'makeFolder',
    'makeFolder',
    'badRequest',
  ),
  name: fc.constantFrom(...NAMES),
  folder: fc.constantFrom('', ...FOLDERS),
  toName: fc.constantFrom(...NAMES),
  toFolder: fc.constantFrom('', ...FOLDERS),
  /** How long the client waits before the next, in ms. */
  pause: fc.constantFrom(0, 0, 0, 1, 3, 10),
  /** Whether the answer is waited for. */
  isPatient: fc.boolean(),
});

type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

/** What was done, by its size: each has one of its own. */
interface Model {
  readonly completed: Set<number>;
  readonly dropped: Set<number>;
  readonly truncated: Set<number>;
}

/** A client that does one thing after the other. Each has names of its own and may be cut off, unless `isWild`. */
async function rage(
  berth: TestBerth,
  directory: TestDirectory,
  operations: readonly Operation[],
  { model, nextSize, index, isWild }: { model: Model; nextSize: () => number; index: number; isWild: boolean },
): Promise<void> {
  let connection: Connection = await berth.connect(directory);
  let session: RawSftp = await rawSftp(connection);
  const pathOf = (folder: string, name: string): string =>
    (folder === '' ? '' : `${folder}/`) + (isWild ? name : `s${index}-${name}`);

  async function open(path: string): Promise<[Buffer, number] | undefined> {
    const handle = await session.open(path, CREATE_ANEW);
    if (!handle) return undefined;
    const size = nextSize();
    void session.request(FXP.WRITE, handle, 0n, 'x'.repeat(size)).catch(() => undefined);
    return [handle, size];
  }

  for (const { kind, name, folder, toName, toFolder, pause, isPatient } of operations) {
    const path = pathOf(folder, name);
    const to = pathOf(toFolder, toName);
    let answer: Promise<unknown> | undefined;
    if (kind === 'put') {
      const opened = await open(path);
      if (opened) {
        const [handle, size] = opened;
        answer = session.request(FXP.CLOSE, handle).then(({ status }) => status === 0 && model.completed.add(size));
      }
    } else if (kind === 'rename') answer = session.rename(path, to);
    else if (kind === 'replace') answer = session.replace(path, to);
    else if (kind === 'remove') answer = session.request(FXP.REMOVE, path);
    else if (kind === 'truncate') {
      const size = nextSize();
      model.truncated.add(size);
      answer = session.request(FXP.SETSTAT, path, 1, BigInt(size));
    } else if (kind === 'makeFolder') answer = session.request(FXP.MKDIR, folder || 'd', NO_ATTRIBUTES);
    else if (kind === 'renameFolder') answer = session.rename(folder || 'd', toFolder || 'e');
    else if (kind === 'replaceFolder') answer = session.replace(folder || 'd', toFolder || 'e');
    else if (kind === 'badRequest') answer = session.request(FXP.FSTAT, Buffer.from('nope'));
    else if (!isWild) {
      const opened = await open(path);
      if (opened) model.dropped.add(opened[1]);
      await session.request(FXP.STAT, '.');
      connection.drop();
      connection = await berth.connect(directory);
      session = await rawSftp(connection);
      continue;
    }
    if (isPatient) await answer;
    else answer?.catch(() => undefined);
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
  }
  await session.request(FXP.STAT, '.');
  await connection[Symbol.asyncDispose]();
}

function filesBelow(folder: string, prefix = ''): [string, number][] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry): [string, number][] =>
    entry.isDirectory()
      ? filesBelow(join(folder, entry.name), `${prefix}${entry.name}/`)
      : [[prefix + entry.name, statSync(join(folder, entry.name)).size]],
  );
}

/** What is not as it should be. */
async function faults(berth: TestBerth, directory: TestDirectory, model: Model): Promise<string[]> {
  const found: string[] = [];
  const disk = new Map(filesBelow(directory.files));
  const listed = new Map(
    (await berth.uploads(directory)).map(({ filename, size_bytes }) => [filename, size_bytes] as const),
  );
  const sum = [...disk.values()].reduce((total, size) => total + size, 0);
  const storage = await berth.storage(directory);
  if (storage !== sum) found.push(`storage_bytes is ${storage}, the disk has ${sum}`);
  for (const [name, size] of listed)
    if (disk.get(name) !== size) found.push(`listed ${name} ${size}, on disk ${disk.get(name)}`);
  for (const [name, size] of disk) {
    const mayBeListed = !model.dropped.has(size);
    const mustBeListed = model.completed.has(size);
    if (listed.has(name) ? !mayBeListed : mustBeListed)
      found.push(`${name} ${size} is ${listed.has(name) ? '' : 'not '}listed`);
  }
  const hooks = berth.receiver.requests.map(webhookOf).filter(({ directory_id: id }) => id === directory.id);
  const sizes = hooks.map(({ size_bytes: size }) => size);
  for (const size of new Set(sizes)) {
    const times = sizes.filter((each) => each === size).length;
    const names = hooks.filter((hook) => hook.size_bytes === size).map(({ filename }) => filename);
    if (times > 1) found.push(`${size} was announced ${times} times: ${names.join(', ')}`);
    if (model.dropped.has(size)) found.push(`${size} was announced (${names.join()}), though it was dropped`);
    // A temporary name may be truncated before it is announced under its final one.
    const isKnown = [model.completed, model.dropped, model.truncated].some((set) => set.has(size));
    if (!isKnown) found.push(`${size} was announced (${names.join()}), though it was never uploaded`);
  }
  for (const [name, size] of disk) {
    if (model.completed.has(size) && !sizes.includes(size)) found.push(`${name} ${size} was not announced`);
  }
  return found;
}

test(`${ROUNDS} storms: list, bytes and webhooks come to agree with the disk`, { timeout: 1_200_000 }, async () => {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
  using place = scratch();
  await using berth = await startBerth(place);
  const problems: string[] = [];
  for (let first = 0; first < ROUNDS; first += TOGETHER) {
    const together = Array.from({ length: Math.min(TOGETHER, ROUNDS - first) }, async (_, offset) => {
      const round = first + offset;
      const isWild = round % 2 === 1;
      const directory = await berth.directory();
      const model: Model = { completed: new Set(), dropped: new Set(), truncated: new Set() };
      let size = 0;
      const raging = Array.from({ length: SESSIONS }, (__, index) =>
        rage(berth, directory, fc.sample(operation, { seed: seed + 1000 * round + index, numRuns: OPERATIONS }), {
          model,
          nextSize: () => (size += 1),
          index,
          isWild,
        }),
      );
      await Promise.all(raging);
      const left = (): Promise<string[]> => faults(berth, directory, model);
      await until('all agrees', async () => (await left()).length === 0, TIMEOUT_SECONDS).catch(() => undefined);
      for (const fault of await left()) problems.push(`round ${round} ${directory.id.slice(0, 8)}: ${fault}`);
    });
    await Promise.all(together);
  }
  assert.deepEqual(problems, [], `run again with SEED=${seed}`);
});
