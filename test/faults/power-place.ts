/** A berth on a disk of its own, and clients that keep it busy until a power cut and remember the answers. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import type { Send } from '../support/api-client.ts';
import { issueKey, webhookOf } from '../support/berth.ts';
import { runCommand } from '../support/command-line.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/poll.ts';
import { randomOf } from '../support/random-of.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, type ServeProcess, startServe } from '../support/serve-process.ts';
import { connect, type Connection } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { keyPair } from '../support/sftp-user.ts';
import { runSshd, type Sshd } from '../support/sshd.ts';
import { loopDisk } from './loop-disk.ts';

const CLIENTS = 4;
/** Uploads that a round may remove. */
const REMOVABLE = 20;

interface Secret {
  readonly password?: string;
  readonly privateKey?: string;
}

/** A directory as the answers have it. */
export interface Known {
  readonly id: string;
  readonly username: string;
  /** `unsure`: the cut came before the answer. */
  state: 'live' | 'deleted' | 'unsure';
  /** What lets in. */
  login: Secret;
  /** What did so once, oldest first. */
  readonly revoked: Secret[];
}

/** What may be in a file by the answers: one content, or two while an answer is out. Undefined: no file. */
export type Contents = readonly (string | undefined)[];

/** Uploads that a client of the API removes, by their ids. */
type Removable = ReadonlyMap<string, { readonly name: string; state: 'live' | 'deleted' | 'unsure' }>;

export type PowerPlace = Awaited<ReturnType<typeof powerPlace>>;

/** `of`: what is on the disk that loses its power. If only the jails are on it, the database cannot be behind them. */
export async function powerPlace(seed: number, { of = 'all' }: { of?: 'all' | 'jails' } = {}) {
  await using parts = new AsyncDisposableStack();
  const outside = parts.use(scratch());
  const run = join(outside.dir, 'run'); // as /run is, it is gone after a cut
  const port = await freePort();
  const place = parts.use(
    scratch({ BERTH_RUNTIME_DIR: run, BERTH_SFTP_PORT: String(port), BERTH_LOG_LEVEL: 'silent' }),
  );
  const disk = parts.use(
    loopDisk(of === 'all' ? place.dir : place.config.jailDir, { image: join(outside.dir, 'image'), mib: 128 }),
  );
  const hook = parts.use(await receiver());
  const fixed = await fixedPorts(place, undefined, {
    BERTH_SFTP_PORT: String(port),
    BERTH_RATE_LIMIT: '1000000',
    BERTH_WEBHOOK_RETRY_DELAYS: '0.2,0.2,0.2',
  });
  const { config } = fixed;
  let boot = 1;
  // After the first cut, names settle: the later cuts come while uploads wait for that.
  const settle = (): string => (of === 'all' && boot > 1 ? '2' : '0');
  const environment = (): Record<string, string> => ({
    ...fixed.environment,
    BERTH_BOOT_ID: `boot ${boot}`,
    BERTH_SETTLE_SECONDS: settle(),
  });
  const paths = pathsOf(config);
  const keys = Array.from({ length: 6 }, (_, index) => keyPair(outside.dir, `key${index}`));
  const random = randomOf(seed);
  let serve: ServeProcess | undefined;
  let sshd: Sshd | undefined;
  parts.defer(async () => {
    await serve?.[Symbol.asyncDispose]();
    await sshd?.kill();
  });

  const startSshd = async (): Promise<void> => {
    mkdirSync(run, { recursive: true });
    const { status, stderr } = await runCommand(environment(), 'prepare');
    if (status !== 0) throw new Error(`berth prepare: ${stderr}`);
    sshd = await runSshd(config);
  };
  await startSshd();
  const apiKey = await issueKey(config);
  serve = await startServe(config, environment());
  const uploads = await create(clientOf(config, apiKey).send, { webhook_url: hook.url });
  const getsIn = async (login: object): Promise<boolean> => {
    try {
      await using connection = await connect({ port, username: '', ...login });
      await sftpSession(connection);
      return true;
    } catch {
      return false;
    }
  };

  /** One client, until it gets no more answers: the last one counts. */
  async function work(send: Send, known: Known[]): Promise<void> {
    const own: Known[] = [];
    for (;;) {
      const living = own.filter(({ state }) => state === 'live');
      const dice = random();
      const picked = living[Math.floor(random() * living.length)];
      if (!picked || living.length < 2 || dice < 0.4) {
        const made = await create(send);
        own.push(made);
        known.push(made);
        continue;
      }
      picked.state = 'unsure';
      const key = keys[Math.floor(random() * keys.length)];
      if (key && dice < 0.8) {
        const { publicKey, privateKey } = key;
        const directory = { auth_mode: 'public_key', public_key: publicKey };
        const { status } = await send('PATCH', `/directories/${picked.id}`, { json: { directory } });
        if (status !== 200) return;
        if (picked.login.privateKey !== privateKey) picked.revoked.push(picked.login);
        picked.login = { privateKey };
        picked.state = 'live';
      } else {
        const { status } = await send('DELETE', `/directories/${picked.id}`);
        if (status !== 204) return;
        picked.revoked.push(picked.login);
        picked.state = 'deleted';
      }
    }
  }

  /** Puts new files and replaces them, in folders that are new as well, until it gets no more answers. */
  async function putFiles(send: Send, round: string, files: Map<string, Contents>): Promise<void> {
    for (let count = 1; ; count += 1) {
      const names = [...files.keys()];
      const old = names[Math.floor(random() * names.length)];
      const name = old !== undefined && random() < 0.4 ? old : `put/${round}-${count % 5}/${count}`;
      const content = `${round} ${count}\n`.repeat(1 + Math.floor(random() * 20_000));
      const before = files.get(name) ?? [undefined];
      files.set(name, [...before, content]);
      const { status } = await send('PUT', `/directories/${uploads.id}/files/${name}`, { body: content });
      if (status !== 200 && status !== 201) return;
      files.set(name, [content]);
    }
  }

  async function removeFiles(send: Send, known: Removable): Promise<void> {
    for (const [id, file] of known) {
      file.state = 'unsure';
      const { status } = await send('DELETE', `/directories/${uploads.id}/uploads/${id}`);
      if (status !== 204) return;
      file.state = 'deleted';
      await wait(random() * 100);
    }
  }

  async function uploadSome(round: number, connection: Connection): Promise<Removable> {
    const session = await sftpSession(connection);
    for (let count = 1; count <= REMOVABLE; count += 1) {
      const name = `some-${round}-${count}`;
      await session.put(name, contentOf(name));
    }
    const isOfRound = ({ filename }: ListedUpload): boolean => filename.startsWith(`some-${round}-`);
    await until('they are listed', async () => (await listed()).filter(isOfRound).length === REMOVABLE);
    const own = (await listed()).filter(isOfRound);
    return new Map(own.map(({ id, filename: name }) => [id, { name, state: 'live' }]));
  }

  async function listed(): Promise<ListedUpload[]> {
    using client = clientOf(config, apiKey);
    const { json } = await client.send('GET', `/directories/${uploads.id}/uploads`);
    return (json as { data: ListedUpload[] }).data;
  }

  /** `serve` hears a second of the log late and at once, as on a busy machine. */
  async function standStill(): Promise<void> {
    serve?.process.kill('SIGSTOP');
    await wait(1000);
    serve?.process.kill('SIGCONT');
    await wait(random() * 150);
  }

  async function cut(): Promise<void> {
    disk.cutPower();
    await serve?.kill();
    await sshd?.kill();
  }

  function repairDisk(): void {
    boot += 1;
    rmSync(run, { recursive: true });
    disk.mountAgain();
  }

  async function upload(round: number): Promise<void> {
    await using connection = await connect({ port, username: uploads.username, ...uploads.login });
    const session = await sftpSession(connection);
    for (let count = 1; ; count += 1) {
      const name = `round-${round}-${count}`;
      await session.put(name, contentOf(name));
    }
  }

  const owned = parts.move();
  return {
    getsIn,
    startSshd,
    async startServe() {
      serve = await startServe(config, environment());
    },
    /** What the clients know when the power has gone, everything has died and the disk is back. */
    async workUntilTheCut(round: number): Promise<Known[]> {
      const known: Known[] = [];
      const working = Array.from({ length: CLIENTS }, () => work(clientOf(config, apiKey).send, known));
      const ended = Promise.allSettled([...working, upload(round)]);
      await until('every client has made a directory', () => known.length >= CLIENTS);
      await wait(random() * 2000);
      if (random() < 0.5) await standStill();
      await cut();
      await ended;
      repairDisk();
      return known;
    },
    /** As before, for files by the API: a client for each of `put`, which goes on from round to round, and one that removes. */
    /** @param stays whether the session that has uploaded the files is there until the cut, so that their removals wait. */
    async handleFilesUntilTheCut(
      round: number,
      { put, stays }: { readonly put: readonly Map<string, Contents>[]; readonly stays: boolean },
    ): Promise<Removable> {
      await using connection = await connect({ port, username: uploads.username, ...uploads.login });
      const removable = await uploadSome(round, connection);
      if (!stays) await connection[Symbol.asyncDispose]();
      const client = (): Send => clientOf(config, apiKey).send;
      const putting = put.map((files, index) => putFiles(client(), `${round}-${index}`, files));
      const ended = Promise.allSettled([...putting, removeFiles(client(), removable)]);
      const isPut = (files: Map<string, Contents>): boolean => [...files.values()].some(({ length }) => length === 1);
      const isDeleted = (): boolean => [...removable.values()].some(({ state }) => state === 'deleted');
      await until('each has had an answer', () => put.every(isPut) && isDeleted());
      await wait(random() * 1500);
      await cut();
      await ended;
      repairDisk();
      return removable;
    },
    listed,
    /** Undefined when it is not there. */
    contentAt(name: string): string | undefined {
      const file = join(paths.jail(uploads.username), 'files', name);
      return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
    },
    inTransit: () => readdirSync(paths.transit),
    async list(): Promise<string[]> {
      using client = clientOf(config, apiKey);
      const { json } = await client.send('GET', '/directories');
      return (json as { data: { sftp_username: string }[] }).data.map(({ sftp_username: name }) => name);
    },
    jails: () => readdirSync(paths.jails).filter((name) => name !== '.berth'),
    users: () => readdirSync(paths.limits),
    announced: () =>
      hook.requests.map((request) => {
        const { filename: name, size_bytes: size } = webhookOf(request);
        return { name, size, content: contentOf(name) };
      }),
    files: () => readdirSync(join(paths.jail(uploads.username), 'files')),
    async partial(): Promise<string[]> {
      const { stdout } = await runCommand(environment(), 'partial', 'list', '--json', '--limit', '99999');
      return (JSON.parse(stdout) as { filename: string }[]).map(({ filename }) => filename);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function create(send: Send, settings?: object): Promise<Known> {
  const { status, json, text } = await send('POST', '/directories', { json: { directory: { name: 'power' } } });
  if (status !== 201) throw new Error(`create answered ${status}: ${text}`);
  const { id = '', sftp_username: username = '', sftp_password: password = '' } = (json as Created).data;
  if (settings) await send('PATCH', `/directories/${id}`, { json: { directory: settings } });
  return { id, username, state: 'live', login: { password }, revoked: [] };
}

interface ListedUpload {
  readonly id: string;
  readonly filename: string;
  readonly size_bytes: number;
}

interface Created {
  readonly data: Record<string, string>;
}

const contentOf = (name: string): string => `${name}\n`.repeat(200);
