/**
 * Random hostile names in random order through a real sshd, without waiting for answers. Whatever the requests are, each
 * webhook belongs to a real upload, with its size and a name that it had, and comes once. At the end rows, lists and totals
 * equal the disk.
 */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { fc } from '../support/fast-check.ts';
import { startBerth, webhookOf } from '../support/berth.ts';
import { until } from '../support/poll.ts';
import { CREATE_ANEW, FXP, NO_ATTRIBUTES, rawSftp } from '../support/raw-sftp.ts';
import { scratch } from '../support/scratch.ts';
import { SEED } from '../support/seed.ts';

const OPERATIONS = 400;
/** How many complete files may be withheld. */
const MOST_WITHHELD = 5;

/** Pieces of names, Latin-1 for bytes. */
const piece = fc.oneof(
  fc.constantFrom('"', '" new "', '" bytes read 0 written 9', '" flags WRITE mode 0666', '\\', '\\n', '\n', '\x1b[2J'),
  fc.constantFrom(
    'a',
    'b',
    '.part',
    '..',
    '.',
    '%s',
    '\xff',
    '\xe2\x82',
    '\xc3\xa9',
    ' ',
    'close "',
    'forced close "x',
  ),
  fc.string({
    unit: fc
      .integer({ min: 1, max: 255 })
      .filter((byte) => byte !== 0x2f)
      .map((byte) => String.fromCharCode(byte)),
  }),
  fc.constant('\x80'.repeat(120)),
);
const name = fc
  .tuple(fc.constantFrom('', 'd/', 'd/../', './', '/files/', 'd/e/'), fc.array(piece, { minLength: 1, maxLength: 3 }))
  .map(([folder, pieces]) => folder + pieces.join(''));

const operation = fc.record({
  kind: fc.constantFrom('put', 'put', 'put', 'rename', 'replace', 'remove'),
  at: fc.nat(30),
  to: fc.nat(30),
  name,
});

test('random names, in random order, all at once', async () => {
  const said = `run again with SEED=${SEED}`;
  const operations = fc.sample(operation, { numRuns: OPERATIONS });
  using place = scratch();
  await using berth = await startBerth(place);
  const directory = await berth.directory();
  const connection = await berth.connect(directory);
  const session = await rawSftp(connection);
  for (const folder of ['d', 'd/e']) await session.request(FXP.MKDIR, folder, NO_ATTRIBUTES);

  const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');
  const decoded = (text: string): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes(normal(text)));
  const used: string[] = [];
  /**
   * Each upload by its size, with the names that it may have had: one that is renamed before berth looks may be announced by
   * the new one. Vague are those whose names a line did not show for certain: found by looking at the disk, they may be
   * announced under another name once more, or as the empty file that was there at that moment.
   */
  const uploads = new Map<number, { names: Set<string>; isVague: boolean }>();
  const vague = new Set<string>();
  for (const [index, { kind, at, to, name: fresh }] of operations.entries()) {
    const known = used[at % Math.max(used.length, 1)];
    const target = to % 3 === 0 ? fresh : (used[to % Math.max(used.length, 1)] ?? fresh);
    const size = index + 1; // tells uploads apart
    if (kind === 'put' || known === undefined) {
      const written = to % 2 === 0 ? (known ?? fresh) : fresh;
      // The handle has to be known; everything else is sent ahead.
      const handle = await session.open(bytes(written), CREATE_ANEW);
      if (!handle) continue;
      void session.request(FXP.WRITE, handle, 0n, 'x'.repeat(size));
      void session.request(FXP.CLOSE, handle);
      used.push(written);
      const isVague = !isTold(written);
      uploads.set(size, { names: new Set([decoded(written)]), isVague });
      if (isVague) vague.add(decoded(written));
    } else if (kind === 'remove') void session.request(FXP.REMOVE, bytes(known));
    else {
      void (kind === 'rename'
        ? session.rename(bytes(known), bytes(target))
        : session.replace(bytes(known), bytes(target)));
      used.push(target);
      const isVague = !isTold(known, target) || vague.has(decoded(known));
      if (isVague) vague.add(decoded(known)).add(decoded(target));
      const renamed = (names: ReadonlySet<string>): string[] => namesAfter(names, decoded(known), decoded(target));
      for (const moved of renamed(vague)) vague.add(moved);
      for (const upload of uploads.values()) {
        const names = renamed(upload.names);
        for (const moved of names) upload.names.add(moved);
        upload.isVague ||= isVague && names.length > 0;
      }
    }
  }
  await session.request(FXP.STAT, '.');
  // Files left under temporary names count once nobody can rename them any more.
  await connection[Symbol.asyncDispose]();

  const disk = (): string[] =>
    filesBelow(bytes(directory.files), '')
      .map(([path, size]) => `${decoded(path)} ${size}`)
      .toSorted();
  const rows = async (): Promise<string[]> =>
    (await berth.uploads(directory)).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`).toSorted();
  await until('rows equal the disk', async () => String(await rows()) === String(disk())).catch(() => undefined);
  // If a name is vague, berth cannot tell whether a refused request cut its file short, so it may withhold a few (docs/limits.md).
  const listed = await rows();
  const withheld = disk().filter((line) => !listed.includes(line));
  for (const line of withheld) assert.ok(uploads.get(Number(line.split(' ').at(-1)))?.isVague, `${line} (${said})`);
  assert.ok(withheld.length <= MOST_WITHHELD, `${withheld.length} are withheld (${said})`);
  assert.deepEqual([...listed, ...withheld].toSorted(), disk(), said);
  const total = disk().reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  assert.equal(await berth.storage(directory), total, said);
  const seen = new Map<number, string>();
  for (const { filename, size_bytes: size } of berth.receiver.requests.map(webhookOf)) {
    const what = `${JSON.stringify(filename)} ${size}`;
    const isTrue = size === 0 ? vague.has(filename) : uploads.get(size)?.names.has(filename) === true;
    assert.ok(isTrue, `${what} was never uploaded (${said})`);
    const isAnew = !seen.has(size) || size === 0 || uploads.get(size)?.isVague === true;
    assert.ok(isAnew, `${what} was announced before as ${JSON.stringify(seen.get(size))} (${said})`);
    seen.set(size, filename);
  }
  assert.ok(
    uploads.values().some(({ isVague }) => !isVague),
    said,
  );
  assert.ok(berth.receiver.requests.length > 50, said);
});

/** Whether sshd's line about these names is certain to tell them: not cut, and with one way to read it. */
function isTold(...names: readonly string[]): boolean {
  const length = names.reduce((sum, each) => sum + 4 * each.length, 60); // `\ooo` for a byte, and the wording
  return length < 500 && (names.length === 1 || !names.some((each) => each.includes('" new "')));
}

/** The names that a rename gives to a file with any of these names, by itself or with a folder above it. */
function namesAfter(names: ReadonlySet<string>, from: string, to: string): string[] {
  return [...names]
    .filter((path) => path === from || path.startsWith(`${from}/`))
    .map((path) => to + path.slice(from.length));
}

/** The path below `files/` that a name means. */
function normal(text: string): string {
  const parts: string[] = [];
  for (const part of text.replace(/^\/files\//, '').split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '.' && part !== '') parts.push(part);
  }
  return parts.join('/');
}

/** Path (Latin-1) and size of every file below a folder. */
function filesBelow(folder: Buffer, prefix: string): [path: string, size: number][] {
  return readdirSync(folder, { withFileTypes: true, encoding: 'buffer' }).flatMap((entry) => {
    const path = Buffer.concat([folder, Buffer.from('/'), entry.name]);
    const shortPath = prefix + entry.name.toString('latin1');
    return entry.isDirectory() ? filesBelow(path, `${shortPath}/`) : [[shortPath, statSync(path).size]];
  });
}
