/**
 * Machines as an operator has them: on each a `berth serve` and an sshd of their own, on a network whose cables can be pulled,
 * with a PostgreSQL beside them that can be stopped.
 */
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Config } from '../../../src/foundation/base/config.ts';
import { type Database, openDatabase } from '../../../src/foundation/db/open.ts';
import { pathsOf } from '../../../src/machine/sftp/paths.ts';
import { usersWithCredentials } from '../../../src/machine/sftp/credentials.ts';
import type { Send } from '../../support/api-client.ts';
import { issueKey } from '../../support/berth.ts';
import { nodeEnvironment } from '../../support/node-environment.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/poll.ts';
import { onPostgres, postgresOnly, psql } from '../../support/postgres.ts';
import { type PostgresServer, postgresServer } from '../../support/postgres-server.ts';
import { type Receiver, receiver, type ReceiverOptions } from '../../support/receiver.ts';
import { scratch } from '../../support/scratch.ts';
import { clientOf, type ServeProcess, spawnServe } from '../../support/serve-process.ts';
import { connect, type Connection } from '../../support/sftp-client.ts';
import { sftpSession } from '../../support/sftp-session.ts';
import { copyHostKeys, runSshd, type Sshd } from '../../support/sshd.ts';
import { type Created, created } from '../nodes-place.ts';
import { type Machine, network, obstacle } from './network.ts';

const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));
const CLOCK_AHEAD = fileURLToPath(new URL('clock-ahead.mjs', import.meta.url));

/** For tests that need it. */
export const clustered = { skip: onPostgres ? (obstacle() ?? false) : postgresOnly.skip };

/** Settings of a node whose clock is five minutes ahead. For tests without uploads: the times of files stay as they are. */
export const AHEAD = { NODE_OPTIONS: `--import=${CLOCK_AHEAD}` };

export interface ClusterNode {
  readonly name: string;
  readonly config: Config;
  /** For commands that are run there. */
  readonly environment: Readonly<Record<string, string>>;
  readonly cable: Pick<Machine, 'plug' | 'unplug'>;
  /** The one that runs, or ran last. */
  serve(): ServeProcess;
  /** A request to it, on a connection of its own. */
  readonly send: Send;
  isHealthy(): Promise<boolean>;
  /** The users whose credentials are on its disk. */
  users(): Promise<Set<string>>;
  /** All its processes end at once, and its memory is lost. */
  powerOff(): Promise<void>;
  /** What comes before berth at a start: `berth prepare`, then sshd. */
  startSshd(): Promise<void>;
  /** Does not wait for an answer. */
  startServe(): ServeProcess;
  /** The same, and waits for it. */
  startHealthy(): Promise<void>;
}

export interface Cluster extends AsyncDisposable {
  readonly url: string;
  readonly key: string;
  readonly server: PostgresServer;
  /** What the database has. */
  readonly db: Database['db'];
  readonly receiver: Receiver;
  node(name: string): ClusterNode;
  /** Creates one there whose webhook is the receiver. */
  directoryOn(home: ClusterNode): Promise<Created>;
}

/**
 * @param nodes their names, with further settings of each and a processor that is its only one.
 * @param respond how the receiver answers.
 */
export async function cluster(
  nodes: Record<string, { readonly settings?: Record<string, string>; readonly processor?: number }>,
  { respond }: Pick<ReceiverOptions, 'respond'> = {},
): Promise<Cluster> {
  await using parts = new AsyncDisposableStack();
  const net = parts.use(await network());
  const port = await freePort();
  const server = parts.use(
    await postgresServer({
      access: ['local all all trust', 'local replication all trust', 'host berth berth samenet scram-sha-256'],
      settings: [`listen_addresses=${net.address}`, `port=${port}`],
    }),
  );
  await server.start();
  const admin = `postgres://postgres@/postgres?host=${server.folder}&port=${port}`;
  psql(admin, "create role berth login password 'secret'");
  psql(admin, "create database berth owner berth encoding 'UTF8' template template0");
  const url = `postgres://berth:secret@${net.address}:${port}/berth`;
  const hook = parts.use(await receiver({ host: net.address, ...(respond && { respond }) }));
  const { db } = parts.adopt(await openDatabase(url), (opened) => opened.close());

  let key = '';
  const started: ClusterNode[] = [];
  for (const [name, { settings = {}, processor }] of Object.entries(nodes)) {
    const machine = await net.machine();
    const place = parts.use(
      scratch({
        BERTH_DATABASE_URL: url,
        BERTH_NODE: name,
        BERTH_API_HOST: machine.address,
        BERTH_API_PORT: '8443',
        BERTH_SFTP_HOST: machine.address,
        BERTH_SFTP_PORT: '2222',
        BERTH_WEBHOOK_ALLOW: net.range,
        BERTH_WEBHOOK_RETRY_DELAYS: '0.5,1,2',
        BERTH_RATE_LIMIT: '1000000',
        BERTH_UNAUTHENTICATED_RATE_LIMIT: '1000000',
        BERTH_LOG_LEVEL: 'warn',
      }),
    );
    key ||= await issueKey(place.config);
    await copyHostKeys(dirname(place.dir), pathsOf(place.config).hostKeys);
    const pinned = processor === undefined ? [] : ['taskset', '--cpu-list', String(processor)];
    const options = {
      name,
      machine,
      by: [...machine.by, ...pinned],
      environment: { ...place.environment, ...settings },
    };
    started.push(parts.use(clusterNode({ ...options, config: place.config, key })));
  }
  await Promise.all(
    started.map(async (node) => {
      await node.startSshd();
      await node.startHealthy();
    }),
  );
  const owned = parts.move();
  return {
    url,
    key,
    server,
    db,
    receiver: hook,
    node(wanted) {
      const found = started.find(({ name }) => name === wanted);
      if (!found) throw new Error(`no node is called ${wanted}`);
      return found;
    },
    async directoryOn(home) {
      for (let tries = 0; tries < 10; tries += 1) {
        const made = created(await home.send('POST', '/directories', { json: { directory: { name: 'Acme' } } }));
        if (made.sftp_host !== home.config.sftp.host) continue;
        await home.send('PATCH', `/directories/${made.id}`, { json: { directory: { webhook_url: hook.url } } });
        return made;
      }
      throw new Error(`no directory went to ${home.name}`);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface NodeOptions {
  readonly name: string;
  readonly machine: Machine;
  readonly by: readonly string[];
  readonly environment: Record<string, string>;
  readonly config: Config;
  readonly key: string;
}

function clusterNode({ name, machine, by, environment, config, key }: NodeOptions): ClusterNode & AsyncDisposable {
  let serve: ServeProcess | undefined;
  let sshd: Sshd | undefined;
  const send: Send = async (...request) => {
    using client = clientOf(config, key);
    return await client.send(...request);
  };
  const node: ClusterNode = {
    name,
    config,
    environment,
    cable: machine,
    serve() {
      if (!serve) throw new Error('berth serve has not been started');
      return serve;
    },
    send,
    async isHealthy() {
      // No certificate or no listener yet.
      const answer = await send('GET', '//healthz').catch(() => undefined);
      return answer?.status === 200;
    },
    users: () => usersWithCredentials(pathsOf(config)),
    async powerOff() {
      await Promise.all([serve?.kill('SIGKILL'), sshd?.kill()]);
      rmSync(config.runtimeDir, { recursive: true, force: true });
    },
    async startSshd() {
      const [program, ...args] = [...by, process.execPath, MAIN, 'prepare'];
      await promisify(execFile)(program, args, {
        env: { ...nodeEnvironment, ...environment },
      });
      sshd = await runSshd(config, [machine.address], by);
    },
    startServe: () => (serve = spawnServe(environment, { by })),
    async startHealthy() {
      const { hasEnded, output } = node.startServe();
      await until(`${name} answers`, () => {
        if (hasEnded()) throw new Error(`berth serve has ended: ${output()}`);
        return node.isHealthy();
      });
    },
  };
  return {
    ...node,
    async [Symbol.asyncDispose]() {
      await serve?.[Symbol.asyncDispose]();
      await sshd?.[Symbol.asyncDispose]();
    },
  };
}

export function entering(
  { sftp_host: host, sftp_port: port, sftp_username: username, sftp_password }: Created,
  password = sftp_password,
): Promise<Connection> {
  return connect({ host, port, username, password });
}

/** Whether one gets in, with that password. A refusal takes about 2 s, by PAM. */
export async function letsIn(directory: Created, password?: string): Promise<boolean> {
  try {
    await using _session = await entering(directory, password);
    return true;
  } catch (error) {
    if (/authentication|All configured|closed the connection/i.test(String(error))) return false;
    throw error;
  }
}

/** An upload of a login of its own. */
export async function put(directory: Created, name: string): Promise<void> {
  await using connection = await entering(directory);
  await (await sftpSession(connection)).put(name, name);
}
