/**
 * The archive that `berth backup` writes: a plain tar with a manifest, which names each file with its SHA-256. What was
 * cut off or changed is refused as a whole. Holds secrets, so it is 0600 from its first byte on.
 */
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  closeSync,
  createReadStream,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import * as v from 'valibot';
import { sync } from '../db/copy.ts';
import { errorMessage, OperatorError } from '../errors.ts';

/** The names in the archive. */
export const PARTS = {
  database: 'berth.db',
  hostKeys: 'hostkeys',
  certificate: 'tls/cert.pem',
  key: 'tls/key.pem',
  settings: 'berth.env',
} as const;

const MANIFEST = 'manifest.json';
const FORMAT = 1;

const Manifest = v.object({
  format: v.literal(FORMAT),
  /** The version of berth that made it. */
  berth: v.string(),
  /** When the database was copied, ISO 8601. */
  made_at: v.string(),
  /** SHA-256 by name, lowercase hex. */
  files: v.record(v.pipe(v.string(), v.regex(/^[\w.-]+(\/[\w.-]+)?$/)), v.string()),
});

export type Manifest = v.InferOutput<typeof Manifest>;

/** Packs these files of `folder` into `file`, which appears whole or not at all, in place of an earlier one. */
export async function pack(
  file: string,
  folder: string,
  names: readonly string[],
  about: Pick<Manifest, 'berth' | 'made_at'>,
): Promise<void> {
  const hashes = await Promise.all(names.map(async (name) => [name, await sha256(join(folder, name))] as const));
  const manifest: Manifest = { format: FORMAT, ...about, files: Object.fromEntries(hashes) };
  writeFileSync(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
  const fresh = `${file}.${process.pid}.new`;
  const fd = openSync(fresh, 'wx', 0o600);
  try {
    try {
      await tar(['--create', '--owner=0', '--group=0', '--numeric-owner', '-C', folder, '--', MANIFEST, ...names], fd);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(fresh, file);
    sync(dirname(file));
  } finally {
    rmSync(fresh, { force: true });
  }
}

/**
 * Unpacks into an empty folder of one's own.
 * @throws {OperatorError} when it is no backup, of a newer format, or damaged.
 */
export async function unpack(file: string, folder: string): Promise<Manifest> {
  try {
    await promisify(execFile)('tar', ['--extract', '--no-same-owner', '-f', file, '-C', folder]);
  } catch (error) {
    throw new OperatorError(`${file} cannot be unpacked: ${lastLine(error)}`, { cause: error });
  }
  const manifest = readManifest(file, join(folder, MANIFEST));
  for (const [name, hash] of Object.entries(manifest.files)) {
    const path = join(folder, name);
    const isWhole = lstatSync(path, { throwIfNoEntry: false })?.isFile() && (await sha256(path)) === hash;
    if (!isWhole) throw new OperatorError(`${file} is damaged: ${name} is not what was backed up. Take another backup`);
  }
  return manifest;
}

function readManifest(file: string, path: string): Manifest {
  try {
    return v.parse(Manifest, JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    throw new OperatorError(`${file} is no backup that this berth can read: ${errorMessage(error)}`, { cause: error });
  }
}

async function tar(args: readonly string[], output: number): Promise<void> {
  const child = spawn('tar', args, { stdio: ['ignore', output, 'pipe'] });
  const [complaint, [code]] = await Promise.all([child.stderr ? text(child.stderr) : '', once(child, 'close')]);
  if (code !== 0) throw new OperatorError(`tar could not write the backup: ${complaint.trim().replaceAll('\n', '; ')}`);
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

function lastLine(error: unknown): string {
  return errorMessage(error).trim().split('\n').at(-1) ?? '';
}
