/**
 * SFTP packet by packet (draft-ietf-secsh-filexfer-02, and PROTOCOL of OpenSSH for its extensions), for names and
 * requests that ssh2's own API would not send. Requests may be sent without waiting for the answers of earlier ones.
 */
import { promisify } from 'node:util';
import type { Channel } from 'ssh2';
import type { Connection } from './sftp-client.ts';

/** Request types. */
export const FXP = {
  OPEN: 3,
  CLOSE: 4,
  READ: 5,
  WRITE: 6,
  LSTAT: 7,
  FSTAT: 8,
  SETSTAT: 9,
  FSETSTAT: 10,
  OPENDIR: 11,
  READDIR: 12,
  REMOVE: 13,
  MKDIR: 14,
  RMDIR: 15,
  REALPATH: 16,
  STAT: 17,
  RENAME: 18,
  READLINK: 19,
  SYMLINK: 20,
  EXTENDED: 200,
} as const;

/** Flags of OPEN. */
export const OPEN = { read: 1, write: 2, append: 4, create: 8, truncate: 16, exclusive: 32 } as const;
export const CREATE_ANEW = OPEN.write | OPEN.create | OPEN.truncate;

const INIT = 1;
const VERSION = 2;
const STATUS = 101;
const HANDLE = 102;

/** A string field, a uint32 or a uint64. */
type Field = string | Buffer | number | bigint;

export interface Answer {
  readonly type: number;
  /** What follows the request's id. */
  readonly body: Buffer;
  /** 0 is OK. Undefined when the answer is no STATUS. */
  readonly status: number | undefined;
}

export interface RawSftp {
  /** Sends a request, resolves with its answer; rejects when the server hangs up first. */
  request(type: number, ...fields: Field[]): Promise<Answer>;
  extended(name: string, ...fields: Field[]): Promise<Answer>;
  /** The handle, or undefined when the server refuses. */
  open(name: string | Buffer, flags: number): Promise<Buffer | undefined>;
  /** Opens with truncation, writes, closes. False when the open was refused. */
  put(name: string | Buffer, data: string | Buffer): Promise<boolean>;
  rename(from: string | Buffer, to: string | Buffer): Promise<Answer>;
  /** posix-rename@openssh.com, which replaces what is there. */
  replace(from: string | Buffer, to: string | Buffer): Promise<Answer>;
}

export async function rawSftp(connection: Connection): Promise<RawSftp> {
  const subsystem = promisify(
    connection.client.subsys.bind(connection.client) as (
      name: string,
      done: (error: Error | undefined, channel: Channel) => void,
    ) => void,
  );
  connection.client.setNoDelay(true); // small requests would wait for the acknowledgement of earlier ones
  const channel = await subsystem('sftp');
  const waiting = new Map<number, PromiseWithResolvers<Answer>>();
  let last = 0;
  let unread = Buffer.alloc(0);
  const greeted = Promise.withResolvers<void>();
  let hasEnded = false;

  channel.on('data', (chunk: Buffer) => {
    unread = Buffer.concat([unread, chunk]);
    while (unread.length >= 4 && unread.length >= 4 + unread.readUInt32BE(0)) {
      const end = 4 + unread.readUInt32BE(0);
      take(unread.subarray(4, end));
      unread = unread.subarray(end);
    }
  });
  channel.on('close', () => {
    hasEnded = true;
    for (const { reject } of [greeted, ...waiting.values()]) reject(new Error('the server hung up'));
    waiting.clear();
  });

  function take(packet: Buffer): void {
    const type = packet[0] ?? 0;
    if (type === VERSION) return greeted.resolve();
    const id = packet.readUInt32BE(1);
    const body = packet.subarray(5);
    waiting.get(id)?.resolve({ type, body, status: type === STATUS ? body.readUInt32BE(0) : undefined });
    waiting.delete(id);
  }

  function send(type: number, content: Buffer): void {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(content.length + 1, 0);
    head.writeUInt8(type, 4);
    channel.write(Buffer.concat([head, content]));
  }

  send(INIT, encode(3));
  await greeted.promise;
  const session: RawSftp = {
    async request(type, ...fields) {
      if (hasEnded) throw new Error('the server hung up');
      const answer = Promise.withResolvers<Answer>();
      last += 1;
      waiting.set(last, answer);
      send(type, Buffer.concat([last, ...fields].map(encode)));
      return answer.promise;
    },
    extended: (name, ...fields) => session.request(FXP.EXTENDED, name, ...fields),
    async open(name, flags) {
      const { type, body } = await session.request(FXP.OPEN, name, flags, NO_ATTRIBUTES);
      return type === HANDLE ? firstString(body) : undefined;
    },
    async put(name, data) {
      const handle = await session.open(name, CREATE_ANEW);
      if (!handle) return false;
      // The answers come in order, so the last one stands for all.
      if (data.length > 0) void session.request(FXP.WRITE, handle, 0n, data);
      return (await session.request(FXP.CLOSE, handle)).status === 0;
    },
    rename: (from, to) => session.request(FXP.RENAME, from, to),
    replace: (from, to) => session.extended('posix-rename@openssh.com', from, to),
  };
  return session;
}

/** Attributes that say nothing: flags 0. */
export const NO_ATTRIBUTES = 0;

function encode(field: Field): Buffer {
  if (typeof field === 'number') {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(field);
    return bytes;
  }
  if (typeof field === 'bigint') {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(field);
    return bytes;
  }
  const bytes = Buffer.from(field);
  return Buffer.concat([encode(bytes.length), bytes]);
}

/** The string at the beginning of a body: a handle, or what an extension answers. */
export function firstString(body: Buffer): Buffer {
  return body.subarray(4, 4 + body.readUInt32BE(0));
}

/** The names of a NAME answer. */
export function namesOf({ body }: Answer): string[] {
  const names: string[] = [];
  let at = 4;
  const text = (): string => {
    const value = firstString(body.subarray(at));
    at += 4 + value.length;
    return value.toString('latin1');
  };
  for (let left = body.readUInt32BE(0); left > 0; left--) {
    names.push(text());
    text(); // the line as `ls -l` would print it
    at = skipAttributes(body, at);
  }
  return names;
}

function skipAttributes(body: Buffer, at: number): number {
  const flags = body.readUInt32BE(at);
  const sizes = [8, 8, 4, 8]; // size, owner and group, permissions, times
  return sizes.reduce((end, size, bit) => (flags & (1 << bit) ? end + size : end), at + 4);
}
