/** A customer who uploads to a directory, wherever its home is at the moment. */
import { setTimeout } from 'node:timers/promises';
import { connect, type Connection } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import type { Created } from './nodes-place.ts';

/** The size of each file, in bytes. It is full of its own name. */
export const SIZE = 20_000;

/** Where the directory may be. */
export interface Place {
  readonly host?: string;
  readonly port: number;
}

export interface Customer {
  /** The names of the files that are complete. */
  readonly complete: readonly string[];
  /** Those that were cut off. */
  readonly cut: readonly string[];
  /** The longest time without a complete upload, in ms. */
  longest(): number;
  end(): Promise<void>;
}

/** A customer who uploads one file after the other, each under its own name, wherever the directory is. */
/** @param pause after each file, in ms. */
export function customer(directory: Created, who: string, places: readonly Place[], pause = 100): Customer {
  const complete: string[] = [];
  const cut: string[] = [];
  const over = new AbortController();
  let longest = 0;
  let lastAt = performance.now();
  async function upload(connection: Connection): Promise<void> {
    const session = await sftpSession(connection);
    while (!over.signal.aborted) {
      const name = `live-${who}-${complete.length + cut.length}`;
      try {
        await session.put(name, Buffer.alloc(SIZE, name));
        complete.push(name);
      } catch (error) {
        cut.push(name);
        throw error;
      }
      longest = Math.max(longest, performance.now() - lastAt);
      lastAt = performance.now();
      await setTimeout(pause);
    }
  }
  const running = (async () => {
    for (let turn = 0; !over.signal.aborted; turn += 1) {
      const place = places[turn % places.length] ?? { port: 22 };
      try {
        await using connection = await connect({
          ...place,
          username: directory.sftp_username,
          password: directory.sftp_password,
        });
        await upload(connection);
      } catch {
        await setTimeout(100);
      }
    }
  })();
  return {
    complete,
    cut,
    longest: () => longest,
    async end() {
      over.abort();
      await running;
    },
  };
}
