/** `berth serve` as a process, an sshd, a receiver and one directory: for tests of what happens to the process. */
import type { Config } from '../../src/foundation/base/config.ts';
import { issueKey } from '../support/berth.ts';
import { fixedPorts } from '../support/fixed-ports.ts';
import { receiver, type Receiver, type ReceiverOptions } from '../support/receiver.ts';
import type { Scratch } from '../support/scratch.ts';
import { clientOf, type ServeProcess, startServe } from '../support/serve-process.ts';
import { startSshd } from '../support/sshd.ts';

export interface FaultyPlace extends AsyncDisposable {
  readonly config: Config;
  readonly environment: Record<string, string>;
  readonly key: string;
  readonly hook: Receiver;
  readonly directory: { readonly id: string; readonly login: { port: number; username: string; password: string } };
  serve(): ServeProcess;
  /** Starts it again, after its end. */
  restart(): Promise<void>;
}

export async function faultyPlace(place: Scratch, options: ReceiverOptions = {}): Promise<FaultyPlace> {
  await using parts = new AsyncDisposableStack();
  const hook = parts.use(await receiver(options));
  const sshd = parts.use(await startSshd(place));
  const { config, environment } = await fixedPorts(place, sshd);
  const key = await issueKey(config);
  let serve = await startServe(config, environment);
  parts.defer(() => serve[Symbol.asyncDispose]());
  using client = clientOf(config, key);
  const made = await client.send('POST', '/directories', { json: { directory: { name: 'faulty' } } });
  const { data } = made.json as { data: Record<string, string> };
  const { id = '', sftp_username: username = '', sftp_password: password = '' } = data;
  await client.send('PATCH', `/directories/${id}`, { json: { directory: { webhook_url: hook.url } } });
  const owned = parts.move();
  return {
    config,
    environment,
    key,
    hook,
    directory: { id, login: { port: sshd.port, username, password } },
    serve: () => serve,
    async restart() {
      serve = await startServe(config, environment);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
