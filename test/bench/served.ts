/** `berth serve` for a bench: a process of its own, as in production. */
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { issueKey } from '../support/berth.ts';
import { copyEmptyDatabase } from '../support/empty-database.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import type { Scratch } from '../support/scratch.ts';
import { type ServeProcess, startServe } from '../support/serve-process.ts';
import { type Sshd, startSshd } from '../support/sshd.ts';

export interface ServedDirectory {
  readonly id: string;
  readonly sftp_username: string;
  readonly sftp_password: string;
}

export interface Served extends AsyncDisposable {
  readonly config: Config;
  /** The key of an account that may do anything. */
  readonly key: string;
  readonly serve: ServeProcess;
}

/** The configuration of a berth that can be started as a process: its ports are fixed. */
export function fixedConfig(
  place: Scratch,
  sshd?: Sshd,
): Promise<{ config: Config; environment: Record<string, string> }> {
  return fixedPorts(place, sshd, { BERTH_RATE_LIMIT: '1000000' });
}

/** Starts it, with an sshd of its own. */
export async function serveBerth(place: Scratch): Promise<Served> {
  await using parts = new AsyncDisposableStack();
  const sshd = parts.use(await startSshd(place));
  const { config, environment } = await fixedConfig(place, sshd);
  const serve = parts.use(await startServe(config, environment));
  const key = await issueKey(config);
  const owned = parts.move();
  return { config, key, serve, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** An account for rows that are inserted directly into the database. */
export async function firstAccount(config: Config): Promise<string> {
  copyEmptyDatabase(config);
  const database = await openDatabase(config.database);
  const { id } = await createAccount({ database, clock: systemClock() }, { name: 'Filled', plan: 'business' });
  await database.close();
  return id;
}
