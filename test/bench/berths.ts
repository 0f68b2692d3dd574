/** The berths that a bench measures: this source tree's, and those it is compared with. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Config } from '../../src/foundation/base/config.ts';
import type { ApiClient } from '../support/api-client.ts';
import { ON_POSTGRES } from '../support/postgres.ts';
import { clientOf } from '../support/serve-process.ts';
import type { ServedDirectory } from './served.ts';

/** A source tree and, after it, flags as `tree.ts` takes them, or `POSTGRES`. */
export type Tree = readonly string[];

/** The flag of a tree that is measured on PostgreSQL. */
export const POSTGRES = 'postgres';

const PROGRAM = fileURLToPath(new URL('tree.ts', import.meta.url));

export interface Berth extends AsyncDisposable {
  readonly config: Config;
  readonly key: string;
  readonly ca: Buffer;
  readonly api: ApiClient;
  /** The process of `berth serve`. */
  readonly pid: number;
  /** Creates a directory, and then sets the fields that a create does not accept. */
  directory(changes?: object): Promise<ServedDirectory>;
  /** The same in another account. */
  neighbour(changes?: object): Promise<ServedDirectory>;
}

export interface Berths extends AsyncDisposable {
  readonly all: readonly Berth[];
}

/** Starts the berth of each tree. */
export async function startBerths(trees: readonly Tree[]): Promise<Berths> {
  await using parts = new AsyncDisposableStack();
  const all: Berth[] = [];
  for (const tree of trees) all.push(parts.use(await startBerth(tree)));
  const owned = parts.move();
  return { all, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function startBerth(tree: Tree): Promise<Berth> {
  const env = { ...process.env, ...(tree.includes(POSTGRES) && ON_POSTGRES) };
  const words = tree.filter((word) => word !== POSTGRES);
  const child = spawn(process.execPath, [PROGRAM, ...words], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const { value, done } = await createInterface(child.stdout)[Symbol.asyncIterator]().next();
  if (done === true) throw new Error(`the berth of ${tree[0]} does not start`);
  const { config, key, neighbourKey, pid } = JSON.parse(value) as {
    [of in 'key' | 'neighbourKey']: string;
  } & Pick<Berth, 'config' | 'pid'>;
  const api = clientOf(config, key);
  const neighbourApi = clientOf(config, neighbourKey);
  return {
    config,
    key,
    ca: readFileSync(config.tls.cert),
    api,
    pid,
    directory: (changes) => createDirectory(api, changes),
    neighbour: (changes) => createDirectory(neighbourApi, changes),
    async [Symbol.asyncDispose]() {
      api[Symbol.dispose]();
      neighbourApi[Symbol.dispose]();
      child.stdin.end();
      await ended;
    },
  };
}

async function createDirectory(api: ApiClient, changes?: object): Promise<ServedDirectory> {
  const json = { directory: { name: 'Bench', max_connections: 1000 } };
  const created = await api.send('POST', '/directories', { json });
  if (created.status !== 201) throw new Error(`create answered ${created.status}: ${created.text}`);
  const { data } = created.json as { data: ServedDirectory };
  if (!changes) return data;
  const changed = await api.send('PATCH', `/directories/${data.id}`, { json: { directory: changes } });
  if (changed.status !== 200) throw new Error(`PATCH answered ${changed.status}: ${changed.text}`);
  return data;
}

/** The proportional set size of a process, in MiB (proc_pid_smaps(5)). */
export function memoryOf(pid: number): number {
  return Number(/^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]) / 1024;
}

/**
 * Seconds of processor time that a process and its threads have used, without its children (proc_pid_stat(5), 14 and 15).
 */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
