/** `berth restore` over a berth that has data, killed after each of its steps: the next start has the old state or the new one. SQLite's alone: on PostgreSQL the database is not restored. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
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
import { scratch } from '../support/scratch.ts';

const CHILD = fileURLToPath(new URL('./restore-child.ts', import.meta.url));
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/** More than there are. */
const MOST_STEPS = 80;

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

  const seen: string[] = [];
  const die = async (step: number): Promise<boolean> => {
    using place = scratch();
    cpSync(old.config.stateDir, place.config.stateDir, { recursive: true });
    const child = spawn(process.execPath, [CHILD, String(step), archive], {
      env: { ...nodeEnvironment, ...place.environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [last, [code, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    assert.ok(signal === 'SIGKILL' || (last === 'finished' && code === 0), `step ${step}: ${last} ${code}`);

    const config = readConfig(place.environment);
    finishRestore(config);
    const state = await stateOf(config);
    assert.ok(state === whole('old') || state === whole('new'), `after "${last}": ${state}`);
    if (state === whole('new')) assert.equal(await keptState(config), 'old first, old last', `after "${last}"`);
    seen[step] = state;
    return last === 'finished';
  };
  for (let step = 1; ; step += 4) {
    assert.ok(step < MOST_STEPS);
    if ((await Promise.all([0, 1, 2, 3].map((more) => die(step + more)))).includes(true)) break;
  }
  const turn = seen.indexOf(whole('new'));
  assert.ok(turn > 1 && seen.slice(turn).length > 5, 'both come about');
  assert.ok(seen.slice(turn).every((state) => state === whole('new')));
  t.diagnostic(`${seen.length - 1} steps, the restored state from step ${turn} on`);
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
