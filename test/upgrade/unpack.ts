/** The folders that a berth of an earlier commit has left, as `make.ts` wrote them, on this machine. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Sqlite from 'better-sqlite3';
import type { Config } from '../../src/foundation/base/config.ts';
import type { Upload } from '../support/berth.ts';
import { freePort } from '../support/free-port.ts';
import type { Scratch } from '../support/scratch.ts';

const HERE = fileURLToPath(new URL('./', import.meta.url));
export const COMMITS: readonly string[] = readdirSync(HERE, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

export interface Kept {
  /** An API key of the account that has the directories. */
  readonly key: string;
  /** The private key of the SFTP users two and three. */
  readonly privateKey: string;
  /** Files that waited under temporary names for their session. */
  readonly waiting?: readonly string[];
  /** A webhook whose first attempt has failed. */
  readonly delivery: string;
  /** By password, by key, by both, and one whose receiver is out of reach. */
  readonly directories: readonly {
    readonly id: string;
    readonly username: string;
    readonly password: string;
    readonly secret: string;
    readonly storage: number;
    readonly uploads: readonly Upload[];
  }[];
}

/** Those of that commit on this machine; its webhooks go to `url`. */
export async function unpack(place: Scratch, commit: string, url: string): Promise<{ kept: Kept; config: Config }> {
  execFileSync('tar', ['-C', place.dir, '-xpzf', join(HERE, commit, 'kept.tar.gz'), '--numeric-owner']);
  const database = new Sqlite(place.config.databaseFile);
  database.prepare('update deliveries set url = ?').run(url);
  database.prepare('update directories set webhook_url = ?').run(url);
  database.close();
  const { sftp: at, webhooks } = place.config;
  const config = {
    ...place.config,
    sftp: { ...at, port: await freePort() },
    webhooks: { ...webhooks, allow: ['127.0.0.0/8'] },
  };
  return { kept: JSON.parse(readFileSync(join(HERE, commit, 'expected.json'), 'utf8')) as Kept, config };
}
