/**
 * `berth restore`: puts a backup in place while the service is stopped. All of the archive is checked, and the database
 * migrated, before anything of the machine is touched; the database comes last, so that an interrupted restore is repeated.
 * What it replaces is kept beside, as `….before-restore-<time>`. No file of a customer is touched.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Config } from '../config.ts';
import { sync } from '../db/copy.ts';
import { lockInstance } from '../db/instance-lock.ts';
import { lookAt } from '../db/look.ts';
import { openDatabase } from '../db/open.ts';
import { OperatorError } from '../errors.ts';
import { pathsOf } from '../sftp/paths.ts';
import { type Manifest, unpack } from './archive.ts';
import { PARTS } from './backup.ts';
import { adaptRestored, type RestoredRows } from './restored-rows.ts';

export interface RestoreOptions {
  /** The archive. */
  readonly file: string;
  /** The file that the environment is set from. */
  readonly settings: string;
  /** Restores although there is data, which is kept beside. */
  readonly force: boolean;
}

export interface Restored extends RestoredRows {
  readonly madeAt: string;
  /** Live directories that have no jail here (yet). */
  readonly withoutJail: readonly string[];
  /** What was replaced, under its new name. */
  readonly kept: readonly string[];
  /** Where the backup's configuration was put, if it had one that is not in place already. */
  readonly settings: string | undefined;
}

/** @throws {OperatorError} while berth serve runs, when there is data and no `force`, or when the backup cannot be used. */
export async function restore(config: Config, { file, settings, force }: RestoreOptions): Promise<Restored> {
  const archive = resolve(file);
  if (!existsSync(archive)) throw new OperatorError(`there is no backup ${archive}`);
  const folder = dirname(config.databaseFile);
  for (const path of [config.stateDir, folder]) mkdirSync(path, { recursive: true, mode: 0o755 });
  using _lock = lockInstance(join(config.stateDir, 'serve.lock'));
  if (!force && (await hasData(config.databaseFile))) {
    throw new OperatorError(
      `${config.databaseFile} holds data: restore with --force, which keeps it beside, or choose another BERTH_STATE_DIR`,
    );
  }
  const stage = mkdtempSync(join(folder, '.berth-restore-'));
  try {
    const manifest = await unpack(archive, stage);
    const rows = await adapt(join(stage, PARTS.database));
    const placed = place(config, { stage, manifest, settings });
    const withoutJail = rows.usernames.filter((username) => !existsSync(pathsOf(config).jail(username)));
    return { ...rows, ...placed, madeAt: manifest.made_at, withoutJail };
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Whether there is anything to lose. What cannot be read may be worth mending. */
async function hasData(file: string): Promise<boolean> {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) return existsSync(`${file}-wal`);
  try {
    await using look = lookAt(file);
    const account = await look.db.selectFrom('accounts').select('id').limit(1).executeTakeFirst();
    const principal = await look.db.selectFrom('principals').select('uid').limit(1).executeTakeFirst();
    return account !== undefined || principal !== undefined;
  } catch {
    return true;
  }
}

async function adapt(file: string): Promise<RestoredRows> {
  const database = await openDatabase(file, { check: true });
  try {
    return await adaptRestored(database);
  } finally {
    await database.close(); // the last connection takes the write-ahead log into the file
  }
}

interface Placing {
  readonly stage: string;
  readonly manifest: Manifest;
  readonly settings: string;
}

function place(
  config: Config,
  { stage, manifest, settings }: Placing,
): { kept: string[]; settings: string | undefined } {
  const suffix = `before-restore-${new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
  const kept: string[] = [];
  const keep = (path: string, beside = `${path}.${suffix}`): void => {
    if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
    rmSync(beside, { force: true });
    linkSync(path, beside);
    kept.push(beside);
  };
  const put = (name: string, path: string, mode: number): void => {
    const [from, fresh] = [join(stage, name), `${path}.new`];
    if (existsSync(path) && readFileSync(path).equals(readFileSync(from))) return;
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    copyFileSync(from, fresh);
    chmodSync(fresh, mode);
    sync(fresh);
    keep(path);
    renameSync(fresh, path);
    sync(dirname(path));
  };

  const names = Object.keys(manifest.files);
  const { hostKeys } = pathsOf(config);
  mkdirSync(hostKeys, { recursive: true, mode: 0o700 });
  for (const name of names.filter((each) => each.startsWith(`${PARTS.hostKeys}/`))) {
    put(name, join(hostKeys, basename(name)), name.endsWith('.pub') ? 0o644 : 0o600);
  }
  if (config.tls.selfSigned && names.includes(PARTS.certificate) && names.includes(PARTS.key)) {
    put(PARTS.key, config.tls.key, 0o600);
    put(PARTS.certificate, config.tls.cert, 0o644);
  }
  const shown = names.includes(PARTS.settings) ? placeSettings(join(stage, PARTS.settings), settings, put) : undefined;

  const { databaseFile } = config;
  for (const end of ['', '-wal']) keep(databaseFile + end, `${databaseFile}.${suffix}${end}`);
  for (const end of ['-wal', '-shm']) rmSync(databaseFile + end, { force: true });
  sync(join(stage, PARTS.database));
  renameSync(join(stage, PARTS.database), databaseFile);
  sync(dirname(databaseFile));
  return { kept, settings: shown };
}

/** The machine's own configuration stays, since it says where things are here; the backup's is put beside it. */
function placeSettings(
  from: string,
  settings: string,
  put: (name: string, path: string, mode: number) => void,
): string | undefined {
  const own = existsSync(settings) ? readFileSync(settings) : undefined;
  if (own?.equals(readFileSync(from))) return undefined;
  const path = own === undefined ? settings : `${settings}.restored`;
  put(PARTS.settings, path, 0o600);
  return path;
}
