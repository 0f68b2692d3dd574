/**
 * The archive that `berth backup` writes: a plain tar with a manifest, which names each file with its SHA-256. An archive that was cut
 * off or changed is refused as a whole. It holds secrets, so it has mode 0600 from its first byte.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  existsSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import * as v from 'valibot';
import type { Config } from '../../foundation/base/config.ts';
import { errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { pathsOf } from '../../machine/sftp/paths.ts';
import { sync } from '../../foundation/base/files.ts';

/** The names in the archive. */
export const PARTS = {
  database: 'berth.db',
  hostKeys: 'hostkeys',
  certificate: 'tls/cert.pem',
  key: 'tls/key.pem',
  settings: 'berth.env',
} as const;

/**
 * The files that identify this machine to clients, with their paths by name in the archive: the certificate, and the host
 * keys whose names are in `keyFolder`. The operator's own certificate is neither copied nor replaced.
 */
export function identityFiles(config: Config, keyFolder: string): Map<string, string> {
  const { hostKeys } = pathsOf(config);
  const keys = existsSync(keyFolder) ? readdirSync(keyFolder) : [];
  const ours = keys.filter((name) => /^ssh_host_\w+_key(\.pub)?$/.test(name));
  const files = new Map(ours.map((name) => [`${PARTS.hostKeys}/${name}`, join(hostKeys, name)]));
  return config.tls.selfSigned ? files.set(PARTS.key, config.tls.key).set(PARTS.certificate, config.tls.cert) : files;
}

const MANIFEST = 'manifest.json';

/** With an SQLite database, and without. A berth that only knows SQLite refuses the second. */
const FORMATS = { sqlite: 1, postgres: 2 } as const;

/** The state of a PostgreSQL database that a backup belongs to. */
const OnPostgres = v.object({
  /** The database's own id. */
  installation: v.string(),
  /** How many backups had been made with it, this one included. */
  backups: v.number(),
  /** This machine's name. */
  node: v.string(),
});

export type OnPostgres = v.InferOutput<typeof OnPostgres>;

const Manifest = v.object({
  format: v.picklist([FORMATS.sqlite, FORMATS.postgres]),
  /** The version of berth that made it. */
  berth: v.string(),
  /** When the database was copied, ISO 8601. */
  made_at: v.string(),
  /** SHA-256 by name, lowercase hex. */
  files: v.record(v.pipe(v.string(), v.regex(/^[\w.-]+(\/[\w.-]+)?$/)), v.string()),
  postgres: v.optional(OnPostgres),
});

export type Manifest = v.InferOutput<typeof Manifest>;

interface Packing extends Pick<Manifest, 'berth' | 'made_at' | 'postgres'> {
  readonly folder: string;
  readonly names: readonly string[];
  readonly stop: AbortSignal;
}

/** Packs these files of `folder` into `file`, which appears whole or not at all. Replaces an earlier one. */
export async function pack(file: string, { folder, names, stop, ...about }: Packing): Promise<void> {
  const hashes = await Promise.all(names.map(async (name) => [name, await sha256(join(folder, name), stop)] as const));
  const format = about.postgres === undefined ? FORMATS.sqlite : FORMATS.postgres;
  const manifest: Manifest = { format, ...about, files: Object.fromEntries(hashes) };
  writeFileSync(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
  const fresh = `${file}.${process.pid}.new`;
  closeSync(openSync(fresh, 'wx', 0o600));
  try {
    const owner = ['--owner=0', '--group=0', '--numeric-owner'];
    await tar(['--create', ...owner, '-f', fresh, '-C', folder, '--', MANIFEST, ...names], stop);
    sync(fresh);
    renameSync(fresh, file);
    sync(dirname(file));
  } finally {
    rmSync(fresh, { force: true });
  }
}

/**
 * Unpacks into an empty folder that nobody else can write to.
 * @throws {OperatorError} when the file is no backup, has a newer format, or is damaged.
 */
export async function unpack(file: string, folder: string, stop: AbortSignal): Promise<Manifest> {
  try {
    await tar(['--extract', '--no-same-owner', '-f', file, '-C', folder], stop);
  } catch (error) {
    throw new OperatorError(`${file} cannot be unpacked: ${errorMessage(error)}`, { cause: error });
  }
  const manifest = readManifest(file, join(folder, MANIFEST));
  for (const [name, hash] of Object.entries(manifest.files)) {
    const path = join(folder, name);
    const isWhole = lstatSync(path, { throwIfNoEntry: false })?.isFile() && (await sha256(path, stop)) === hash;
    if (!isWhole)
      throw new OperatorError(`${file} is damaged: ${name} differs from what was backed up. Use another backup`);
  }
  return manifest;
}

function readManifest(file: string, path: string): Manifest {
  try {
    return v.parse(Manifest, JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    throw new OperatorError(`${file} is not a backup that this berth can read: ${errorMessage(error)}`, {
      cause: error,
    });
  }
}

/** @throws an error with tar's message, on one line. */
async function tar(args: readonly string[], signal: AbortSignal): Promise<void> {
  try {
    await promisify(execFile)('tar', [...args], { signal });
  } catch (error) {
    const message = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    throw new Error(message.replaceAll('\n', '; ') || errorMessage(error), { cause: error });
  }
}

async function sha256(file: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash, { signal });
  return hash.digest('hex');
}
