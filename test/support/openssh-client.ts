/** OpenSSH's own clients, as a customer runs them: `sftp` with a batch of commands, and `ssh`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { TIMEOUT_SECONDS } from './poll.ts';

/** Prints the password, from the environment, when ssh asks for it. */
const ASKPASS = fileURLToPath(new URL('askpass', import.meta.url));

export interface Login {
  readonly port: number;
  readonly username: string;
  /** At least one of the two. With both, the key is tried first. */
  readonly password?: string | undefined;
  /** Path of a private key. */
  readonly keyFile?: string | undefined;
}

export interface Result {
  /** The client's exit status; 255 is a refused login. */
  readonly code: number;
  readonly output: string;
}

const BASE = [
  '-F/dev/null',
  '-oStrictHostKeyChecking=no',
  '-oUserKnownHostsFile=/dev/null',
  '-oGlobalKnownHostsFile=/dev/null',
  '-oIdentitiesOnly=yes',
  '-oIdentityAgent=none',
  '-oNumberOfPasswordPrompts=1',
  `-oConnectTimeout=${TIMEOUT_SECONDS}`,
];

/** Runs `sftp` with these commands, one a line; stops at the first that fails, but for one with a leading `-`. */
export async function sftp(dir: string, login: Login, commands: readonly string[]): Promise<Result> {
  const batch = join(dir, `batch-${crypto.randomUUID()}`);
  writeFileSync(batch, `${commands.join('\n')}\n`);
  // -b would forbid the password prompt; standard input is the same without it.
  return run('sftp', dir, login, ['-P', String(login.port), `${login.username}@127.0.0.1`], batch);
}

/** Runs `ssh` with these arguments before the destination, and that command. */
export async function ssh(
  dir: string,
  login: Login,
  options: readonly string[],
  ...command: string[]
): Promise<Result> {
  const args = ['-p', String(login.port), ...options, `${login.username}@127.0.0.1`, ...command];
  return run('ssh', dir, login, args, '/dev/null');
}

async function run(
  program: string,
  dir: string,
  login: Login,
  args: readonly string[],
  input: string,
): Promise<Result> {
  const methods = [
    login.keyFile === undefined ? [] : 'publickey',
    login.password === undefined ? [] : 'password',
  ].flat();
  const options = [
    ...BASE,
    `-oPreferredAuthentications=${methods.join(',')}`,
    ...(login.keyFile === undefined ? [] : ['-i', login.keyFile]),
  ];
  const client = spawn(
    'sh',
    ['-c', 'input=$1; shift; exec "$@" <"$input" 2>&1', 'sh', input, program, ...options, ...args],
    {
      cwd: dir,
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {
        PATH: process.env['PATH'],
        SSH_ASKPASS: ASKPASS,
        SSH_ASKPASS_REQUIRE: 'force',
        SECRET: login.password,
      },
    },
  );
  const [output, [code]] = await Promise.all([text(client.stdout), once(client, 'exit')]);
  return { code: Number(code ?? 255), output };
}
