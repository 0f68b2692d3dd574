/** `berth restore` over a berth that has data, killed after each of its steps: the next start has the old state or the new one. SQLite's alone: on PostgreSQL the database is not restored. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createAccount, listAccounts } from '../../src/rules/accounts/accounts.ts';
import { backUp } from '../../src/operating/backup/backup.ts';
import { finishRestore } from '../../src/operating/backup/pending-restore.ts';
import { withDatabase } from '../../src/cli/database.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { type Config, readConfig } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const CHILD = fileURLToPath(new URL('./restore-child.ts', import.meta.url));
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/** The parts of a state, by name: the accounts, and the keys by which clients recognize the machine. */
function identityFiles(config: Config): string[] {
  return [join(pathsOf(config).hostKeys, 'ssh_host_ed25519_key'), config.tls.cert, config.tls.key];
}

/** A machine's state of that name. The last account is in the write-ahead log only, as after a crash. */
async function fill(config: Config, name: string): Promise<void> {
  mkdirSync(config.stateDir, { recursive: true });
  const database = await openDatabase(config.database);
  const clock = systemClock();
  await createAccount({ database, clock }, { name: `${name} first`, plan: 'pro' });
  await database.close();
  const again = await openDatabase(config.database);
  await createAccount({ database: again, clock }, { name: `${name} last`, plan: 'pro' });
  for (const end of ['', '-wal']) copyFileSync(config.databaseFile + end, `${config.databaseFile}${end}.kept`);
  await again.close();
  for (const end of ['', '-wal']) cpSync(`${config.databaseFile}${end}.kept`, config.databaseFile + end);
  for (const file of identityFiles(config)) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, name);
  }
}

/** The owner of the state, as each part of it says. */
async function stateOf(config: Config): Promise<string> {
  const accounts = await withDatabase(config, listAccounts);
  const names = accounts.map((account) => account.name).toSorted();
  return [...names, ...identityFiles(config).map((file) => readFileSync(file, 'utf8'))].join(', ');
}

const whole = (name: string) => `${name} first, ${name} last, ${name}, ${name}, ${name}`;

test('a restore that is killed leaves the old state or the restored one, whole', sqliteOnly, async (t) => {
  using source = scratch();
  using old = scratch();
  await fill(source.config, 'new');
  await fill(old.config, 'old');
  const archive = join(source.dir, 'backup.tar');
  const settings = join(source.dir, 'none');
  await backUp(source.config, { file: archive, settings, clock: systemClock(), stop: new AbortController().signal });

  const run = async ({ environment }: Scratch, ...how: string[]) => {
    const child = spawn(process.execPath, [CHILD, archive, ...how], {
      env: { ...nodeEnvironment, ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [last, [, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    return { last, signal: signal as NodeJS.Signals | null };
  };
  /** The state that the next start makes of what is left in a place. */
  const nextStart = async (place: Scratch, after: string): Promise<string> => {
    const config = readConfig(place.environment);
    finishRestore(config);
    const state = await stateOf(config);
    assert.ok(state === whole('old') || state === whole('new'), `after ${after}: ${state}`);
    if (state === whole('new')) assert.equal(await keptState(config), 'old first, old last', `after ${after}`);
    return state;
  };

  // What each death would leave, from one process.
  using place = scratch();
  const { stateDir } = place.config;
  cpSync(old.config.stateDir, stateDir, { recursive: true });
  const kept = join(place.dir, 'kept');
  mkdirSync(kept);
  assert.equal((await run(place, 'each', kept)).last, 'finished');
  const seen: string[] = [];
  const steps: string[] = [];
  for (let step = 1; existsSync(join(kept, String(step))); step += 1) {
    rmSync(stateDir, { recursive: true });
    renameSync(join(kept, String(step)), stateDir);
    const name = readFileSync(join(kept, `${step}.step`), 'utf8');
    steps.push(name);
    seen.push(await nextStart(place, `step ${step}, ${name}`));
  }
  const turn = seen.indexOf(whole('new'));
  assert.ok(turn > 0 && seen.slice(turn).length > 5, 'both come about');
  assert.ok(seen.slice(turn).every((state) => state === whole('new')));
  t.diagnostic(`${seen.length} steps, the restored state from step ${turn + 1} on: ${steps[turn]}`);

  // Real deaths leave the same.
  await Promise.all(
    [turn - 1, turn, seen.length - 1].map(async (index) => {
      using dying = scratch();
      cpSync(old.config.stateDir, dying.config.stateDir, { recursive: true });
      const { signal } = await run(dying, String(index + 1));
      assert.equal(signal, 'SIGKILL');
      assert.equal(await nextStart(dying, `a death after step ${index + 1}`), seen[index]);
    }),
  );
});

/** What was replaced is kept, with what was in its write-ahead log. */
async function keptState(config: Config): Promise<string> {
  const kept = readdirSync(config.stateDir).find((name) => /^berth\.db\.before-restore-\w+$/.test(name)) ?? '';
  const database = join(config.stateDir, kept);
  const accounts = await withDatabase({ ...config, database }, listAccounts);
  return accounts
    .map(({ name }) => name)
    .toSorted()
    .join(', ');
}

test(
  'while one is unfinished no command reads or writes what is about to be replaced, and a start finishes it',
  sqliteOnly,
  async () => {
    using place = scratch();
    await fill(place.config, 'old');
    mkdirSync(join(place.config.stateDir, 'restore.pending'));
    await assert.rejects(withDatabase(place.config, listAccounts), /a restore was interrupted: start berth/);
    await assert.rejects(
      backUp(place.config, {
        file: join(place.dir, 'b'),
        settings: '',
        clock: systemClock(),
        stop: new AbortController().signal,
      }),
      /a restore was interrupted/,
    );
    // sshd does not use these host keys yet; that comes later.
    spawnSync(process.execPath, [MAIN, 'prepare'], { env: { ...nodeEnvironment, ...place.environment } });
    assert.equal(await stateOf(place.config), whole('old'));
  },
);
