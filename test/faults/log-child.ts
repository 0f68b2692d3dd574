/** The transfer log in a process that can be stopped and killed (`log-child-main.ts`), and sshd's voice. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const CHILD = fileURLToPath(new URL('log-child-main.ts', import.meta.url));

export function logChild(folder: string) {
  const child = spawn(process.execPath, [...process.execArgv, CHILD, folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let socket: string | undefined;
  const heard: string[] = [];
  createInterface(child.stdout).on('line', (line) => {
    if (socket === undefined) socket = line;
    else heard.push(line);
  });
  return {
    /** Where it listens, once it does. */
    get socket(): string | undefined {
      return socket;
    },
    /** What the journal has. */
    heard,
    /** Sends a message as syslog(3) does: on a connection of its own. Resolves when it has been read. */
    say(text: string): Promise<void> {
      const connection = connect(socket ?? '');
      return new Promise((resolve, reject) => {
        connection.once('error', reject).once('close', () => resolve());
        connection.once('connect', () => connection.end(`<135>Nov 22 06:00:00 internal-sftp[1]: ${text}\0`));
      });
    },
    kill: (signal: NodeJS.Signals): void => void child.kill(signal),
    ended,
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}
