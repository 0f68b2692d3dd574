/**
 * `berth backup`: all that cannot be made again, in one file: the database, the host keys, the self-signed certificate that
 * clients trust, and the configuration. Works beside a running service, which is not held up. The customers' files are
 * not in it, nor is a certificate that the operator got elsewhere.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Clock, formatMicros } from '../clock.ts';
import type { Config } from '../config.ts';
import { copyDatabaseFile } from '../db/copy.ts';
import { refuseUnfinished } from '../db/unfinished-restore.ts';
import { errorMessage, OperatorError } from '../errors.ts';
import { pathsOf } from '../sftp/paths.ts';
import { version } from '../version.ts';
import { pack, PARTS } from './archive.ts';

export interface BackupOptions {
  readonly clock: Clock;
  /** Where the archive goes. */
  readonly file: string;
  /** The file that the environment is set from, if there is one. */
  readonly settings: string;
}

/**
 * @returns the names of what is in the archive.
 * @throws {OperatorError} when there is no database, or the archive cannot be written: an earlier one is as it was.
 */
export async function backUp(config: Config, options: BackupOptions): Promise<string[]> {
  refuseUnfinished(config);
  if (!existsSync(config.databaseFile)) {
    throw new OperatorError(`there is no database ${config.databaseFile}: is BERTH_STATE_DIR the service's?`);
  }
  const file = resolve(options.file);
  let stage: string | undefined;
  try {
    stage = mkdtempSync(join(dirname(file), '.berth-backup-'));
    const madeAt = formatMicros(options.clock.now());
    await copyDatabaseFile(config.databaseFile, join(stage, PARTS.database));
    const names = [PARTS.database, ...copyOthers(config, options.settings, stage)];
    await pack(file, stage, names, { berth: version, made_at: madeAt });
    return names;
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`cannot back up to ${file}: ${errorMessage(error)}`, { cause: error });
  } finally {
    if (stage !== undefined) rmSync(stage, { recursive: true, force: true });
  }
}

function copyOthers(config: Config, settings: string, stage: string): string[] {
  const { hostKeys } = pathsOf(config);
  const keys = existsSync(hostKeys)
    ? readdirSync(hostKeys).filter((name) => /^ssh_host_\w+_key(\.pub)?$/.test(name))
    : [];
  const sources: [from: string, name: string][] = [
    ...keys.map((name): [string, string] => [join(hostKeys, name), `${PARTS.hostKeys}/${name}`]),
    [settings, PARTS.settings],
  ];
  if (config.tls.selfSigned) sources.push([config.tls.cert, PARTS.certificate], [config.tls.key, PARTS.key]);
  const there = sources.filter(([from]) => existsSync(from));
  for (const [from, name] of there) {
    mkdirSync(dirname(join(stage, name)), { recursive: true, mode: 0o700 });
    copyFileSync(from, join(stage, name));
    chmodSync(join(stage, name), 0o600);
  }
  return there.map(([, name]) => name);
}
