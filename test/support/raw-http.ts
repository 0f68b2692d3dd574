/** Bytes over TLS as they are given, for requests that no client library would send. */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { TIMEOUT_SECONDS } from './poll.ts';

export interface RawAnswer {
  readonly status: number;
  readonly body: string;
}

export interface RawConnection extends Disposable {
  readonly socket: TLSSocket;
  write(bytes: string): void;
  /** All that has come back so far. */
  readonly received: () => string;
  /** Resolves when the server has ended the connection. */
  readonly ended: Promise<void>;
}

/** A TLS connection to a port of loopback. */
export async function rawConnection({ port, ca }: { port: number; ca: Buffer }): Promise<RawConnection> {
  const socket = connect({ port, host: '127.0.0.1', ca });
  await once(socket, 'secureConnect');
  let received = '';
  const ended = new Promise<void>((resolve) => {
    socket.once('end', resolve).once('close', () => resolve());
  });
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));
  socket.on('error', () => undefined);
  return {
    socket,
    write: (bytes) => void socket.write(bytes, 'latin1'),
    received: () => received,
    ended,
    [Symbol.dispose]: () => socket.destroy(),
  };
}

/** Sends the bytes and returns the answers until the server ends the connection; when it does not, `isEnded` tells. */
export async function rawExchange(
  server: { port: number; ca: Buffer },
  bytes: string,
): Promise<{ answers: RawAnswer[]; isEnded: boolean }> {
  using connection = await rawConnection(server);
  connection.write(bytes);
  const patience = wait(TIMEOUT_SECONDS * 1000, false, { ref: false });
  const isEnded = await Promise.race([connection.ended.then(() => true), patience]);
  return { answers: answersIn(connection.received()), isEnded };
}

/** The responses in what came back; each has a `Content-Length` or no body. */
export function answersIn(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = text; rest !== '';) {
    const [, status = ''] = /^HTTP\/1\.1 (\d{3}) /.exec(rest) ?? [];
    const end = rest.indexOf('\r\n\r\n');
    if (status === '' || end < 0) throw new Error(`no response: ${JSON.stringify(rest.slice(0, 80))}`);
    const head = rest.slice(0, end);
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
    const body = rest.slice(end + 4, end + 4 + length);
    if (body.length < length) throw new Error(`half a response: ${rest}`);
    if (status !== '100') answers.push({ status: Number(status), body });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
}
