/**
 * Runs test files (`npm test`) and ends with a list of what failed. More files run at once than there are cores, since most wait
 * for sshd, a client or a timer. Files that took longest in earlier runs go first, so that no long one runs alone at the end.
 *
 *     test/run.ts [--at-once N] [--all | FILE...]
 *
 * Without arguments it runs the files that answer quickly, and says what it left out. TEST_FILE_SECONDS bounds each file.
 * TEST_FAILURES names a file that gets the list of failures, too. SEED is the seed of what tests make up: 1, or another in a long run.
 */
import {
  appendFileSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { randomInt } from 'node:crypto';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect, parseArgs } from 'node:util';
import { bundlePackages } from './support/bundled-packages.ts';
import { findChromium } from './support/chromium.ts';
import { makeEmptyDatabase } from './support/empty-database.ts';
import { makeCertificate } from './support/made-certificate.ts';
import { isLong } from './support/long.ts';
import { BUNDLED_PACKAGES } from './support/node-environment.ts';
import { onPostgres } from './support/postgres.ts';
import { globalSetup, globalTeardown } from './support/postgres-cluster.ts';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const TEST_TIMEOUT_MS = Number(process.env['TEST_FILE_SECONDS'] ?? 240) * 1000;
/** The seconds that each file took when it ran last. */
const EARLIER_TIMES = join(PROJECT, 'node_modules/.cache/test-times.json');
/** For a file that has not run here yet. */
const SLOW_FOLDERS = ['sshd', 'faults', 'bench', 'clients', 'checks', 'dashboard/browser'];
const SLOW_SECONDS = 30;
/** Files at once: two cores are idle a sixth of the time with four, and hardly with five. */
const AT_ONCE = Math.ceil(2.5 * availableParallelism());
/** What runs without arguments: what is likely to notice a mistake, and needs no package beyond berth's own. */
const QUICK = [
  'test/unit/**/*.test.ts',
  'test/db/*.test.ts',
  'test/webhooks/*.test.ts',
  'test/api/**/*.test.ts',
  'test/dashboard/*.test.ts',
  'test/sshd/{access,authorized-keys,delete,isolation,jail,nothing-but-sftp,public-keys}.test.ts',
  'test/sshd/uploads-{announced,overwritten,partial,renamed}.test.ts',
  ...(findChromium() ? ['test/dashboard/browser/story.test.ts'] : []),
];
/** Of these: floods, large files, hundreds of processes, felt times, and what needs chromium, rclone or promtool. */
const NOT_QUICK = [
  'test/api/fuzz/*',
  'test/api/{docs,hostile-*,large-files}.test.ts',
  'test/dashboard/{client-commands,*-speed,largest-inputs,live-slow,login-log}.test.ts',
  'test/unit/packaging/monitoring.test.ts',
  'test/webhooks/{fairness,refusing}.test.ts',
];
/** Files whose tests all need PostgreSQL. On SQLite, each test would be skipped. */
const ON_POSTGRES_ALONE = [
  'test/postgres/*.test.ts',
  'test/nodes/cluster/*.test.ts',
  'test/nodes/!(rules|upkeep).test.ts',
];
const SLOWEST_SHOWN = 5;
const COSTLIEST_SHOWN = 20;
/** In characters. */
const LONGEST_ERROR = 1500;
const LONGEST_OUTPUT = 20_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'at-once': { type: 'string' }, all: { type: 'boolean' } },
});
const scratch = mkdtempSync(join(tmpdir(), 'berth-tests-'));
const timesFile = join(scratch, 'times');
process.env['TEST_FILE_TIMES'] = timesFile; // file-apart writes to it

interface Failure {
  readonly file: string;
  readonly text: string;
}

if (isLong) process.env['SEED'] ??= String(randomInt(2 ** 31));
const plan = testFiles();
const failures: Failure[] = [];
const total = { tests: 0, passed: 0, skipped: 0 };
const began = performance.now();
await globalSetup();
try {
  await bundlePackages();
  await makeEmptyDatabase(scratch);
  await makeCertificate(scratch);
  await runFiles(plan.files, Number(values['at-once'] ?? AT_ONCE));
  const times = timesOfFiles();
  keepTimes(times);
  process.stdout.write(`\n${costliest(times)}\n${summary()}`);
  const failureFile = process.env['TEST_FAILURES'];
  if (failures.length > 0 && failureFile !== undefined) appendFileSync(failureFile, summary());
} finally {
  await globalTeardown();
  rmSync(scratch, { recursive: true });
}
process.exitCode = failures.length === 0 ? 0 : 1;

async function runFiles(files: string[], concurrency: number): Promise<void> {
  const events = run({ files, concurrency, timeout: TEST_TIMEOUT_MS, execArgv: [BUNDLED_PACKAGES] });
  /** What the files have printed: shown for those that fail. */
  const printed = new Map<string, string>();
  const summarized = new Set<string>();
  for await (const { type, data } of events) {
    const file = fileOf(data);
    if (type === 'test:stdout' || type === 'test:stderr') {
      printed.set(file, (printed.get(file) ?? '') + data.message);
    } else if (type === 'test:diagnostic' && file !== '') {
      say(`  ${file}: ${cut(data.message, LONGEST_ERROR)}`);
    } else if (type === 'test:fail') {
      const { error } = data.details;
      // A test or a file that fails only because a test in it does.
      if ('failureType' in error && error.failureType === 'subtestsFailed') continue;
      const isFile = data.file !== undefined && data.name === data.file;
      const what = isFile ? file : `${file}:${data.line} ${data.name}`;
      const text = `FAILED ${what}\n${cut(textOf(error.cause ?? error), LONGEST_ERROR)}\n`;
      failures.push({ file, text });
      say(text);
      if (isFile) showPrinted(printed, file);
    } else if (type === 'test:summary' && file !== '') {
      summarized.add(file);
      total.tests += data.counts.tests;
      total.passed += data.counts.passed;
      total.skipped += data.counts.skipped;
      const result = data.success ? 'ok' : 'FAILED';
      say(`${result} ${file}: ${data.counts.tests} tests in ${(data.duration_ms / 1000).toFixed(1)} s`);
      if (!data.success) showPrinted(printed, file);
      printed.delete(file);
    }
  }
  // node:test takes a process that ends with 0 for a file that passed.
  for (const file of files.map((path) => relative(PROJECT, path))) {
    if (summarized.has(file) || failures.some((failure) => failure.file === file)) continue;
    const text = `FAILED ${file}\n  It ended before its tests, or has none.\n`;
    failures.push({ file, text });
    say(text);
    showPrinted(printed, file);
  }
}

/** The files to run, longest first, and how many that leaves out. */
function testFiles(): { files: string[]; leftOut: number } {
  const exclude = onPostgres ? [] : ON_POSTGRES_ALONE;
  const all = globSync('test/**/*.test.ts', { cwd: PROJECT, exclude });
  const quick = (): string[] => globSync(QUICK, { cwd: PROJECT, exclude: NOT_QUICK });
  const chosen = positionals.length > 0 ? positionals : values.all ? all : quick();
  const earlier = earlierTimes();
  const isSlow = (file: string): boolean =>
    SLOW_FOLDERS.some((folder) => file.startsWith(join(PROJECT, 'test', folder, '/')));
  const seconds = (file: string): number => earlier[relative(PROJECT, file)] ?? (isSlow(file) ? SLOW_SECONDS : 0);
  const files = chosen
    .map((name) => resolve(PROJECT, name))
    .toSorted((one, other) => seconds(other) - seconds(one) || one.localeCompare(other));
  return { files, leftOut: positionals.length > 0 ? 0 : all.length - files.length };
}

function earlierTimes(): Record<string, number> {
  return existsSync(EARLIER_TIMES) ? (JSON.parse(readFileSync(EARLIER_TIMES, 'utf8')) as Record<string, number>) : {};
}

function keepTimes(times: readonly FileTimes[]): void {
  const latest = Object.fromEntries(times.map(({ file, wall }) => [file, wall]));
  // Another run may be reading it.
  const written = `${EARLIER_TIMES}.${process.pid}`;
  writeFileSync(written, JSON.stringify({ ...earlierTimes(), ...latest }));
  renameSync(written, EARLIER_TIMES);
}

/** The test file that an event is about, '' for the run itself. A test may be defined in a file that the test file imports. */
function fileOf(data: object): string {
  const { entryFile, file } = data as { entryFile?: string; file?: string };
  const path = entryFile ?? file;
  return path === undefined ? '' : relative(PROJECT, path);
}

function showPrinted(printed: ReadonlyMap<string, string>, file: string): void {
  const text = printed.get(file);
  if (text !== undefined) say(`${file} printed:\n${cut(text, LONGEST_OUTPUT)}`);
}

function textOf(error: unknown): string {
  const text =
    typeof error === 'string' ? error : inspect(error, { depth: 3, maxStringLength: 500, maxArrayLength: 20 });
  return text.replaceAll(/^ +at .*node:internal.*\n/gm, '').replaceAll(/^/gm, '  ');
}

function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest)} … (${text.length - longest} characters more)`;
}

/** In seconds. */
interface FileTimes {
  readonly file: string;
  readonly wall: number;
  readonly processor: number;
}

function timesOfFiles(): FileTimes[] {
  const lines = readFileSync(timesFile, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => {
    const [file = '', wall, user, system] = line.split('\t');
    return { file: relative(PROJECT, file), wall: Number(wall), processor: Number(user) + Number(system) };
  });
}

/** The files that cost the machine most, and those that took longest. */
function costliest(rows: readonly FileTimes[]): string {
  const sum = (key: 'wall' | 'processor', some = rows): number => some.reduce((all, row) => all + row[key], 0);
  const most = (key: 'wall' | 'processor', count: number): FileTimes[] =>
    rows.toSorted((one, other) => other[key] - one[key]).slice(0, count);
  const line = ({ file, wall, processor }: FileTimes): string =>
    `  ${processor.toFixed(1)} s of processor time in ${wall.toFixed(1)} s: ${file}`;
  const costly = most('processor', COSTLIEST_SHOWN);
  const share = ((100 * sum('processor', costly)) / sum('processor')).toFixed(0);
  return [
    `${rows.length} files took ${sum('processor').toFixed(0)} s of processor time, ${share} % of it in these ${costly.length}:`,
    ...costly.map(line),
    'The slowest:',
    ...most('wall', SLOWEST_SHOWN).map(line),
    '',
  ].join('\n');
}

function summary(): string {
  const { tests, passed, skipped } = total;
  const took = ((performance.now() - began) / 60_000).toFixed(1);
  const shown = failures.map(({ text }) => text);
  return [
    ...shown,
    ...(isLong ? [`These were the tests of SEED=${process.env['SEED']}`] : []),
    `${tests} tests: ${passed} passed, ${skipped} skipped, ${failures.length} failed, after ${took} minutes`,
    ...(plan.leftOut > 0
      ? [`${plan.leftOut} test files were left out, most of them slow: sudo scripts/test --all runs them, too`]
      : []),
    '',
  ].join('\n');
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
