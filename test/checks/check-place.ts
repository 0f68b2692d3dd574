/** A berth whose uploads are checked, with a checker that a test scripts. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import { heldFiles } from '../../src/arrivals/checks/held.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { startBerth, type TestBerth, type TestDirectory } from '../support/berth.ts';
import { runHere } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { ROOT, type Scratch, scratch } from '../support/scratch.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { sharedBerth } from '../support/shared-berth.ts';

/** EICAR's test text, which scanners detect. It is never complete in a source, so that no scanner blocks this file. */
export const EICAR = ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$', 'EICAR-STANDARD-ANTIVIRUS', '-TEST-FILE!$H+H*'].join('');

export interface Asked {
  /** All that was streamed. */
  readonly content: Buffer;
  /** Ends the exchange with that answer. */
  answer(text: string): void;
  readonly socket: Socket;
}

/**
 * The parts of clamd(8) that berth uses. `decide` answers each file; without it, files that contain "bad" are rejected.
 */
export async function fakeClamd(path: string, decide?: (asked: Asked) => void) {
  const sockets = new Set<Socket>();
  const asked: Buffer[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    let received = Buffer.alloc(0);
    let isDone = false;
    socket.on('data', (piece: Buffer) => {
      received = Buffer.concat([received, piece]);
      const content = isDone ? undefined : contentOf(received);
      if (content === undefined) return;
      isDone = true;
      asked.push(content);
      const answer = (text: string): void => void socket.end(`${text}\0`);
      const verdict = content.includes('bad') ? 'stream: Bad-Signature FOUND' : 'stream: OK';
      if (decide) decide({ content, answer, socket });
      else answer(verdict);
    });
  });
  server.listen(path);
  await once(server, 'listening');
  return {
    /** The content of every file that was checked. */
    asked,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
      rmSync(path, { force: true });
    },
  };
}

/** Undefined until the zero length has come. */
function contentOf(received: Buffer): Buffer | undefined {
  const pieces: Buffer[] = [];
  for (let at = 'zINSTREAM\0'.length; at + 4 <= received.length;) {
    const length = received.readUInt32BE(at);
    if (length === 0) return Buffer.concat(pieces);
    pieces.push(received.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return undefined;
}

/** A free path for a checker's socket. */
export function checkSocket(): string {
  mkdirSync(ROOT, { recursive: true });
  return join(ROOT, `clamd-${randomUUID()}`);
}

/** A place whose berth uses the checker at that socket. */
export function checkedScratch(more: Record<string, string> = {}): { place: Scratch; socket: string } {
  const socket = checkSocket();
  return { place: scratch({ BERTH_CHECK: `clamd:${socket}`, ...more }), socket };
}

export interface Held {
  readonly id: string;
  readonly account_id: string;
  readonly filename: string;
  readonly state: string;
  readonly reason: string | null;
}

export interface CheckPlace extends AsyncDisposable {
  readonly berth: TestBerth;
  readonly directory: TestDirectory;
  put(name: string, data: string | Buffer, directory?: TestDirectory): Promise<void>;
  /** The name and state of each row. */
  states(): Promise<string[]>;
  /** The time of each row's file, in µs. */
  mtimes(): Promise<number[]>;
  /** The event and path of each row of the history, sessions aside. */
  history(): Promise<string[]>;
  /** `berth quarantine …` */
  run(...words: string[]): ReturnType<typeof runHere>;
  command(...words: string[]): ReturnType<typeof runHere>;
  explain(): Promise<string>;
  /** Changes of files, with who asked for them. */
  audit(): Promise<string[]>;
  /** The id of the partial file. */
  partial(): Promise<string>;
  held(): Promise<Held[]>;
  /** Waits until the condition holds for the held files, and then for what `berth quarantine list` shows. */
  untilHeld(what: string, isSo: (held: readonly Pick<Held, 'state' | 'reason'>[]) => boolean): Promise<void>;
  listed(): Promise<string[]>;
}

export async function checkPlace(place: Scratch): Promise<CheckPlace> {
  return checkPlaceOf(await startBerth(place));
}

/** One berth for the tests of a file, which come and go with the checker at that socket. Each has an account and a directory of its own. */
export function sharedChecks(): { socket: string; shared: () => Promise<CheckPlace> } {
  const socket = checkSocket();
  const berthOf = sharedBerth({ BERTH_CHECK: `clamd:${socket}` });
  const shared = async (): Promise<CheckPlace> => {
    const at = await checkPlaceOf(await berthOf());
    const { berth, directory } = at;
    return {
      ...at,
      async [Symbol.asyncDispose]() {
        // No later checker is asked about its files.
        await berth.send('DELETE', `/directories/${directory.id}`);
        await berth[Symbol.asyncDispose]();
      },
    };
  };
  return { socket, shared };
}

/** Reads the rows of this account only. */
async function checkPlaceOf(berth: TestBerth): Promise<CheckPlace> {
  const { place, accountId: account } = berth;
  const directory = await berth.directory();
  const command = (...words: string[]) => runHere({ ...place.environment, SUDO_USER: 'alice' }, ...words);
  const run = (...words: string[]) => command('quarantine', ...words);
  const rows = async <T>(read: (database: Awaited<ReturnType<typeof openDatabase>>) => Promise<T>): Promise<T> => {
    const database = await openDatabase(berth.config.database);
    try {
      return await read(database);
    } finally {
      await database.close();
    }
  };
  const held = async (): Promise<Held[]> => {
    const { status, stdout, stderr } = await run('list', '--json');
    if (status !== 0) throw new Error(stderr);
    return (JSON.parse(stdout) as Held[]).filter(({ account_id }) => account_id === account);
  };
  const ownDirectories = (db: Kysely<Tables>) =>
    db.selectFrom('directories').select('id').where('account_id', '=', account);
  return {
    berth,
    directory,
    run,
    command,
    explain: async () => (await command('explain', directory.username)).stdout,
    async put(name, data, of = directory) {
      await using connection = await berth.connect(of);
      await (await sftpSession(connection)).put(name, data);
    },
    states: () =>
      rows(async ({ db }) => {
        const files = db.selectFrom('files').select(['path', 'state']).where('directory_id', 'in', ownDirectories(db));
        const found = await files.orderBy('path').execute();
        return found.map(({ path, state }) => `${path.toString()} ${state}`);
      }),
    mtimes: () =>
      rows(async ({ db }) => {
        const files = db.selectFrom('files').select('mtime').where('directory_id', 'in', ownDirectories(db));
        return (await files.execute()).map(({ mtime }) => mtime);
      }),
    history: () =>
      rows(async ({ db }) => {
        const query = db
          .selectFrom('transfers')
          .select(['event', 'path'])
          .where('path', 'is not', null)
          .where('directory_id', 'in', ownDirectories(db));
        return (await query.orderBy('id').execute()).map(({ event, path }) => `${event} ${path}`);
      }),
    audit: () =>
      rows(async ({ db }) => {
        const audit = db
          .selectFrom('audit')
          .select(['action', 'key_id'])
          .where('directory_id', 'in', ownDirectories(db));
        const found = await audit.orderBy('id').execute();
        return found.map(({ action, key_id }) => `${action} ${key_id}`).filter((text) => text.includes('file'));
      }),
    partial: () =>
      rows(async ({ db }) => {
        const partial = db.selectFrom('files').select('id').where('state', '=', 'partial');
        const found = await partial.where('directory_id', 'in', ownDirectories(db)).executeTakeFirst();
        return found?.id ?? '';
      }),
    held,
    async untilHeld(what, isSo) {
      await until(what, async () =>
        isSo(await rows(({ reads }) => heldFiles(reads, { limit: 100, account }, { settleSeconds: 0, now: 0 }))),
      );
      assert.ok(isSo(await held()), what);
    },
    listed: async () => (await berth.uploads(directory)).map(({ filename }) => filename),
    [Symbol.asyncDispose]: () => berth[Symbol.asyncDispose](),
  };
}

/** Requests that wait until the test answers them. */
export function questions() {
  const waiting: Asked[] = [];
  return {
    decide: (asked: Asked) => void waiting.push(asked),
    async next(): Promise<Asked> {
      await until('a file is checked', async () => waiting.length > 0);
      const [first] = waiting.splice(0, 1);
      assert.ok(first);
      return first;
    },
    waiting,
  };
}

/** The files that are in the quarantine of the place's directory. */
export const quarantineOf = ({ berth, directory }: CheckPlace): string[] => {
  const folder = join(pathsOf(berth.config).quarantine, directory.id);
  return existsSync(folder) ? readdirSync(folder) : [];
};
