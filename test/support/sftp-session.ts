/** One SFTP session at protocol level: requests as promises, which reject once the session has ended. */
import { promisify } from 'node:util';
import type { SFTPWrapper } from 'ssh2';
import type { Connection } from './sftp-client.ts';

export type Handle = Buffer;

export interface SftpSession {
  /** `flags` as fopen(3) has them: `w` truncates, `r+` writes into what is there, `a` appends. */
  open(name: string, flags: string): Promise<Handle>;
  write(handle: Handle, data: string | Buffer, position?: number): Promise<void>;
  close(handle: Handle): Promise<void>;
  /** open, write, close. */
  put(name: string, data: string | Buffer): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** The `posix-rename@openssh.com` extension, which replaces what is there. */
  replace(from: string, to: string): Promise<void>;
  remove(name: string): Promise<void>;
  mkdir(name: string): Promise<void>;
  rmdir(name: string): Promise<void>;
  /** Sets times, permissions or the size of a path. */
  set(name: string, attributes: { atime?: number; mtime?: number; mode?: number; size?: number }): Promise<void>;
  readonly raw: SFTPWrapper;
}

export async function sftpSession(connection: Connection): Promise<SftpSession> {
  const raw = await connection.sftp();
  const bytes = (data: string | Buffer): Buffer => Buffer.from(data);
  // ssh2 rejects requests that are under way when the session ends. It would never answer later ones.
  let hasEnded = false;
  raw.once('end', () => (hasEnded = true));
  const request =
    <Arguments extends unknown[], T>(send: (...args: Arguments) => Promise<T>) =>
    async (...args: Arguments): Promise<T> => {
      if (hasEnded) throw new Error('the session has ended');
      return send(...args);
    };
  const open = request(
    promisify(raw.open.bind(raw) as (name: string, flags: string, callback: Callback<Buffer>) => void),
  );
  const write = request(promisify(raw.write.bind(raw)));
  const close = request(promisify(raw.close.bind(raw)));
  const rename = request(promisify(raw.rename.bind(raw)));
  const replace = request(promisify(raw.ext_openssh_rename.bind(raw)));
  const unlink = request(promisify(raw.unlink.bind(raw)));
  const mkdir = request(promisify(raw.mkdir.bind(raw) as (path: string, callback: Callback<void>) => void));
  const rmdir = request(promisify(raw.rmdir.bind(raw)));
  const setstat = request(promisify(raw.setstat.bind(raw)));
  const session: SftpSession = {
    raw,
    open: (path, flags) => open(path, flags),
    async write(handle, data, position = 0) {
      const buffer = bytes(data);
      await write(handle, buffer, 0, buffer.length, position);
    },
    close: (handle) => close(handle),
    async put(path, data) {
      const handle = await session.open(path, 'w');
      if (data.length > 0) await session.write(handle, data);
      await session.close(handle);
    },
    rename: (from, to) => rename(from, to),
    replace: (from, to) => replace(from, to),
    remove: (path) => unlink(path),
    mkdir: (path) => mkdir(path),
    rmdir: (path) => rmdir(path),
    set: (path, attributes) => setstat(path, attributes),
  };
  return session;
}

type Callback<T> = (error: Error | null | undefined, value: T) => void;
