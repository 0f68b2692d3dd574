/** `berth serve` for a bench: a process of its own, as in production, with an account that may do anything. */
import { mkdirSync, readFileSync } from 'node:fs';
import { createAccount } from '../../src/accounts/accounts.ts';
import { systemClock } from '../../src/clock.ts';
import type { Config } from '../../src/config.ts';
import { openDatabase } from '../../src/db/open.ts';
import { issueKey } from '../support/berth.ts';
import type { ApiClient } from '../support/api-client.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import type { Scratch } from '../support/scratch.ts';
import { clientOf, type ServeProcess, startServe } from '../support/serve-process.ts';
import { type Sshd, startSshd } from '../support/sshd.ts';

export interface ServedDirectory {
  readonly id: string;
  readonly sftp_username: string;
  readonly sftp_password: string;
}

export interface Served extends AsyncDisposable {
  readonly config: Config;
  readonly environment: Record<string, string>;
  readonly key: string;
  readonly ca: Buffer;
  readonly api: ApiClient;
  readonly serve: ServeProcess;
  /** Creates a directory, with a webhook when there is a URL. */
  directory(webhookUrl?: string, fields?: object): Promise<ServedDirectory>;
}

/** The configuration of a berth that can be started as a process: its ports are fixed. */
export function fixedConfig(
  place: Scratch,
  sshd?: Sshd,
): Promise<{ config: Config; environment: Record<string, string> }> {
  return fixedPorts(place, sshd, { BERTH_RATE_LIMIT: '1000000' });
}

export async function serveBerth(place: Scratch, { sftp = false } = {}): Promise<Served & { readonly sshd?: Sshd }> {
  await using parts = new AsyncDisposableStack();
  const sshd = sftp ? parts.use(await startSshd(place)) : undefined;
  const { config, environment } = await fixedConfig(place, sshd);
  const served = parts.use(await startServed(config, environment));
  const owned = parts.move();
  return { ...served, ...(sshd && { sshd }), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export async function startServed(config: Config, environment: Record<string, string>): Promise<Served> {
  await using parts = new AsyncDisposableStack();
  const serve = parts.use(await startServe(config, environment));
  const key = await issueKey(config);
  const api = parts.use(clientOf(config, key));
  const owned = parts.move();
  return {
    config,
    environment,
    key,
    ca: readFileSync(config.tls.cert),
    api,
    serve,
    async directory(webhookUrl, fields = {}) {
      const json = { directory: { name: 'Bench', max_connections: 1000, ...fields } };
      const created = await api.send('POST', '/directories', { json });
      if (created.status !== 201) throw new Error(`create answered ${created.status}: ${created.text}`);
      const { data } = created.json as { data: ServedDirectory };
      if (webhookUrl !== undefined) {
        await api.send('PATCH', `/directories/${data.id}`, { json: { directory: { webhook_url: webhookUrl } } });
      }
      return data;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** An account for rows that are put into the database past the API. */
export async function firstAccount(config: Config): Promise<string> {
  mkdirSync(config.stateDir, { recursive: true });
  const database = await openDatabase(config.databaseFile);
  const { id } = await createAccount({ database, clock: systemClock() }, { name: 'Filled', plan: 'business' });
  await database.close();
  return id;
}
