/**
 * A load of requests over kept TLS connections, one under way on each: raw sockets that send the same bytes again and
 * count what comes back, so that the client takes little of the processor that the server needs.
 */
import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';

export interface LoadOptions {
  readonly port: number;
  readonly ca: Buffer;
  readonly path: string;
  readonly key: string;
  readonly connections: number;
  readonly seconds: number;
}

/** Requests per second. Throws when an answer is not a 200. */
export async function load(options: LoadOptions): Promise<number> {
  const request = Buffer.from(
    `GET ${options.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${options.key}\r\n\r\n`,
  );
  const sockets = await Promise.all(Array.from({ length: options.connections }, () => open(options)));
  const length = await measure(sockets[0], request);
  let answers = 0;
  let running = true;
  const ended = sockets.map(
    (socket) =>
      new Promise<void>((resolve) => {
        let received = 0;
        socket.on('data', (chunk: Buffer) => {
          received += chunk.length;
          if (received < length) return;
          received -= length;
          answers += 1;
          if (running) socket.write(request);
          else resolve();
        });
        socket.write(request);
      }),
  );
  const began = performance.now();
  await new Promise((resolve) => setTimeout(resolve, options.seconds * 1000));
  const rate = (answers * 1000) / (performance.now() - began);
  running = false;
  await Promise.all(ended);
  for (const socket of sockets) socket.destroy();
  return rate;
}

async function open({ port, ca }: LoadOptions): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, ca });
  await once(socket, 'secureConnect');
  return socket;
}

/** The length of one whole answer: all have the same, since `Date` has. */
async function measure(socket: TLSSocket | undefined, request: Buffer): Promise<number> {
  if (!socket) throw new Error('a load needs a connection');
  socket.write(request);
  let answer = Buffer.alloc(0);
  for (;;) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    answer = Buffer.concat([answer, chunk]);
    const head = answer.indexOf('\r\n\r\n');
    if (head === -1) continue;
    const text = answer.toString('latin1', 0, head);
    if (!text.startsWith('HTTP/1.1 200')) throw new Error(`the server answered ${answer.toString()}`);
    const length = head + 4 + Number(/content-length: (\d+)/i.exec(text)?.[1]);
    if (answer.length >= length) return length;
  }
}
