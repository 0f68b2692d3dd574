/** The `ssh2` client, for what OpenSSH's `sftp` cannot do: handles that stay open, raw channels, dropped connections. */
import { once } from 'node:events';
import { promisify } from 'node:util';
import ssh2, { type SFTPWrapper } from 'ssh2';
import { TIMEOUT_SECONDS } from './poll.ts';

export interface Credentials {
  /** 127.0.0.1 when it is left out. */
  readonly host?: string;
  readonly port: number;
  readonly username: string;
  readonly password?: string;
  /** The text of a private key. */
  readonly privateKey?: string;
  /** An agent's socket, for those who want to forward it. */
  readonly agent?: string;
  /** The client's own address; the system chooses one when it is left out. */
  readonly localAddress?: string;
}

export interface Connection extends AsyncDisposable {
  readonly client: ssh2.Client;
  /** Opens an SFTP channel. */
  sftp(): Promise<SFTPWrapper>;
  /** Settles when the server, or either side, has ended the connection. */
  readonly closed: Promise<void>;
  /** Cuts the connection without a goodbye. */
  drop(): void;
}

/** A connection that has logged in. Rejects when the login is refused. */
export async function connect(credentials: Credentials): Promise<Connection> {
  const client = new ssh2.Client();
  client.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => {
    client.once('close', () => {
      resolve();
    });
  });
  client.connect({ host: '127.0.0.1', readyTimeout: TIMEOUT_SECONDS * 1000, ...credentials });
  const refused = closed.then(() => {
    // A server that hangs up during the login is no error to ssh2.
    throw new Error('the server closed the connection');
  });
  // `once` rejects with the client's error, if that comes first.
  await Promise.race([once(client, 'ready'), refused]);
  refused.catch(() => undefined);
  // As OpenSSH's sftp does: or a request waits for the acknowledgement of what went before it, 40 ms.
  client.setNoDelay(true);
  return {
    client,
    closed,
    sftp: () => promisify(client.sftp.bind(client) as (callback: (e: Error | null, s: SFTPWrapper) => void) => void)(),
    drop: () => void client.destroy(),
    async [Symbol.asyncDispose]() {
      client.end();
      await closed;
    },
  };
}
