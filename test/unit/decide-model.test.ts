/**
 * Random stories about two names, a temporary and a final one, against a model of what has to come of them. The ledger
 * and the database are played here in their simplest form; looks come at random moments, however late.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decide } from '../../src/uploads/record/decide.ts';
import type { Effects, Look, Recorded, Wait } from '../../src/uploads/record/decision.ts';
import type { Close, Removal, Rename } from '../../src/uploads/record/evidence.ts';
import { type FileStat, isFileOf, isSame } from '../../src/uploads/record/file-stat.ts';

const FINAL = 'a';
const TEMPORARY = 'a.part';
const SESSION = { pid: 1, address: '' };
/** Between two steps of a story, in µs: enough that times tell them apart. */
const STEP = 1_000_000;

const step = fc.record({
  kind: fc.constantFrom('put', 'put', 'cut', 'rename', 'remove', 'place', 'look', 'look', 'copied'),
  path: fc.constantFrom(FINAL, TEMPORARY),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What is known of a name, as the ledger keeps it. */
interface Evidence {
  path: string | undefined;
  closes: Close[];
  rename: Rename | undefined;
  removal: Removal | undefined;
}

class World {
  readonly disk = new Map<string, FileStat>();
  rows: Recorded[] = [];
  /** What the API has put there and no look has seen yet. */
  #placements: FileStat[] = [];
  readonly announced: number[] = [];
  /** The sizes of the uploads that have to be announced, each of its own size. */
  readonly promised: number[] = [];
  isOver = false;
  #evidence: Evidence[] = [];
  #now = 10 * STEP;
  #size = 0;
  #inode = 0;
  #id = 0;

  play({ kind, path }: Step): void {
    this.#now += STEP;
    if (kind === 'put' || kind === 'cut') this.#put(path, kind === 'put');
    else if (kind === 'rename') this.#rename();
    else if (kind === 'remove') this.#remove(path);
    else if (kind === 'place') this.#place(path);
    else if (kind === 'look') this.lookAt(path);
    else this.#copyJail();
  }

  #put(path: string, isComplete: boolean): void {
    const inode = this.disk.get(path)?.inode ?? ++this.#inode;
    const size = ++this.#size;
    this.disk.set(path, { inode, mtime: this.#now, size_bytes: size });
    const close = {
      isComplete,
      path,
      at: this.#now + 100,
      by: SESSION,
      openedAt: this.#now - 100,
      bytes: size,
      isDoubted: false,
      inode,
      order: size,
    };
    this.#of(path).closes.push(close);
    if (isComplete && path === FINAL) this.promised.push(size);
  }

  #rename(): void {
    const stat = this.disk.get(TEMPORARY);
    if (!stat) return;
    // What is replaced has been recorded: how looks at both overlap is the storms' matter.
    this.lookAt(FINAL);
    const evidence = this.#of(TEMPORARY);
    const last = evidence.closes.at(-1);
    const row = this.rows.find((each) => each.path.toString() === TEMPORARY && isSame(each, stat));
    if (last ? last.isComplete : row?.state === 'waiting') this.promised.push(stat.size_bytes);
    this.disk.delete(TEMPORARY);
    this.disk.set(FINAL, stat);
    this.#evidence = this.#evidence.filter((each) => each.path !== FINAL);
    evidence.path = FINAL;
    evidence.rename = { from: TEMPORARY, by: SESSION, at: this.#now };
    if (last) Object.assign(last, { path: FINAL, from: TEMPORARY, at: this.#now });
  }

  #remove(path: string): void {
    // What gets its final name and is removed before a look is not announced: nothing is left to fetch.
    if (this.#of(path).rename) this.lookAt(path);
    if (!this.disk.delete(path)) return;
    const { closes } = this.#of(path);
    this.#evidence = this.#evidence.filter((each) => each.path !== path);
    // The file has no name any more; what was uploaded is told all the same.
    this.#look({ path: undefined, closes, rename: undefined, removal: undefined });
    this.#of(path).removal = { by: SESSION, at: this.#now };
  }

  /** The API puts a file there, which is another one. */
  #place(path: string): void {
    this.lookAt(path);
    const stat = { inode: ++this.#inode, mtime: this.#now, size_bytes: ++this.#size };
    this.#placements.push(stat);
    this.disk.set(path, stat);
  }

  /** To another disk, as `cp -a` does, while berth is stopped; the scan at the start looks at everything. */
  #copyJail(): void {
    this.lookAtAll();
    for (const [path, stat] of this.disk) this.disk.set(path, { ...stat, inode: ++this.#inode });
    this.lookAtAll();
  }

  #of(path: string): Evidence {
    const known = this.#evidence.find((each) => each.path === path);
    if (known) return known;
    const made = { path, closes: [], rename: undefined, removal: undefined };
    this.#evidence.push(made);
    return made;
  }

  /** Looks come in the order of the first news. */
  lookAt(path: string): void {
    const evidence = this.#of(path);
    const due = this.#evidence.slice(0, this.#evidence.indexOf(evidence) + 1);
    this.#evidence = this.#evidence.slice(due.length);
    for (const each of due) this.#look(each);
  }

  lookAtAll(): void {
    for (const path of [FINAL, TEMPORARY]) this.lookAt(path);
  }

  /** Looks until it is decided; whatever has to be waited for happens. */
  #look(evidence: Evidence): void {
    const waited = new Set<Wait>();
    for (;;) {
      const look = this.#sight(evidence, waited);
      const decision = decide(Object.freeze(look));
      if (!('wait' in decision)) return this.#apply(look, decision);
      assert.ok(!waited.has(decision.wait), `it waits for ${decision.wait} again`);
      waited.add(decision.wait);
      // Meanwhile all other news is looked at.
      if (decision.wait === 'rest')
        for (const { path } of this.#evidence.slice()) if (path !== undefined) this.lookAt(path);
    }
  }

  #sight({ path, closes, rename, removal }: Evidence, waited: ReadonlySet<Wait>): Look {
    const stat = path === undefined ? undefined : this.disk.get(path);
    const row = this.rows.find((each) => each.path.toString() === path);
    const twin = this.rows.find((each) => each !== row && stat && isFileOf(each, stat));
    const hasMoved = twin && this.disk.get(twin.path.toString())?.inode !== twin.inode;
    return {
      path: path ?? '',
      now: this.#now,
      stat,
      row,
      twin: hasMoved ? twin : undefined,
      removedRow: undefined,
      isPlaced: this.#placements.some((each) => stat && isSame(each, stat)),
      closes,
      rename,
      removal,
      sessionEnd: undefined,
      isFresh: false,
      isReopened: false,
      wasSet: false,
      seen: waited.has('barrier') ? (stat ?? null) : undefined,
      synced: waited.has('sync') ? stat : undefined,
      isRested: waited.has('rest'),
      isGone: waited.has('rest') && !stat,
      isDoubted: false,
      isUnexplained: waited.has('explanation'),
      isTemporary: (name) => name === TEMPORARY,
      livePids: this.isOver ? [] : [1],
    };
  }

  #apply({ path, row, twin, stat, isPlaced }: Look, { announce, put, change, remove }: Effects): void {
    this.announced.push(...announce.map(({ bytes }) => bytes));
    const gone = new Set([remove, put && row, put && twin, change && row, change?.of]);
    this.rows = this.rows.filter((each) => !gone.has(each));
    if (put && isPlaced) this.#placements = this.#placements.filter((each) => stat && !isSame(each, stat));
    const id = put?.id ?? String(++this.#id);
    if (put) this.rows.push({ ...put.row, id, path: Buffer.from(path) });
    if (change) this.rows.push({ ...change.of, ...change.to, path: Buffer.from(path) });
  }
}

test('each upload is announced once, and the rows are the files', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (story) => {
      const world = new World();
      for (const each of story) world.play(each);
      world.lookAtAll();
      const inOrder = (sizes: readonly number[]) => sizes.toSorted((a, b) => a - b);
      assert.deepEqual(inOrder(world.announced), inOrder(world.promised), 'announced');
      const rows = world.rows.map(({ path, inode, size_bytes }) => `${path.toString()} ${inode} ${size_bytes}`);
      const files = [...world.disk].map(([path, { inode, size_bytes }]) => `${path} ${inode} ${size_bytes}`);
      assert.deepEqual(rows.toSorted(), files.toSorted(), 'rows and files');

      // The session ends: what waited under its temporary name is complete. A second look has nothing to say.
      world.isOver = true;
      const waiting = world.rows.filter(({ state }) => state === 'waiting').map(({ size_bytes }) => size_bytes);
      world.lookAtAll();
      world.lookAtAll();
      assert.deepEqual(inOrder(world.announced), inOrder([...world.promised, ...waiting]), 'announced at the end');
    }),
    { numRuns: Number(process.env['RUNS'] ?? 2000), seed: Number(process.env['SEED'] ?? Date.now()) },
  );
});
