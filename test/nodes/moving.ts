/** Moves between two nodes of one machine: an `ssh` that runs its command here, as the other node would. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { type Receiver, receiver } from '../support/receiver.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { type Created, nodesPlace, type NodesPlace, type TestNode } from './nodes-place.ts';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

/** Where commands run. */
type Machine = Pick<TestNode, 'name' | 'environment'>;

export interface Ssh extends Disposable {
  /** For `--ssh`. */
  readonly command: string;
  /** Has its call of that number wait: the commands of a move are 1 receive, 2 rsync, 3 sync, 4 rsync, 5 sync. */
  pauseAt(call: number): void;
  paused(): Promise<void>;
  goOn(): void;
}

/** What a shell on that node has around it. */
export function shellOf({ environment }: Machine, folder: string): Record<string, string> {
  const berth = join(folder, 'berth');
  writeFileSync(berth, `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  chmodSync(berth, 0o755);
  return { ...environment, PATH: `${folder}:${process.env['PATH'] ?? ''}` };
}

export function sshTo(node: Machine): Ssh {
  const folder = mkdtempSync(join(tmpdir(), 'berth-ssh-'));
  const program = join(folder, 'ssh');
  const paused = join(folder, 'paused');
  const settings = Object.entries(shellOf(node, folder)).map(([name, value]) => `${name}='${value}'`);
  writeFileSync(
    program,
    `#!/bin/sh
[ "$1" != -l ] || shift 2
shift
call=$(($(cat ${folder}/calls 2>/dev/null || echo 0) + 1))
echo $call > ${folder}/calls
if [ "$call" = "$(cat ${folder}/pause-at 2>/dev/null)" ]; then
  touch ${paused}
  while [ -e ${paused} ]; do sleep 0.02; done
fi
exec env ${settings.join(' ')} sh -c "$*"
`,
  );
  chmodSync(program, 0o755);
  const goOn = (): void => rmSync(paused, { force: true });
  return {
    command: `${program} ${node.name}`,
    pauseAt(call) {
      rmSync(join(folder, 'calls'), { force: true });
      writeFileSync(join(folder, 'pause-at'), `${call}`);
    },
    paused: () => until('the move has come that far', () => existsSync(paused)),
    goOn,
    [Symbol.dispose]() {
      goOn();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export interface Outcome {
  readonly from: string | null;
  readonly sftp_port: number;
  readonly locked_out_ms: number | null;
  readonly is_live: boolean;
}

/** Runs it on the first node. */
export async function moved(
  at: Pick<Machine, 'environment'>,
  { id }: Pick<Created, 'id'>,
  ...args: readonly string[]
): Promise<Outcome> {
  const { status, stdout, stderr } = await runCommand(at.environment, 'node', 'move', id, ...args, '--json');
  if (status !== 0) throw new Error(`berth node move: ${stderr}`);
  return JSON.parse(stdout) as Outcome;
}

/** What it says when it does not move anything. */
export async function refusal(at: TestNode, { id }: Pick<Created, 'id'>, ...args: readonly string[]): Promise<string> {
  const { status, stderr } = await runCommand(at.environment, 'node', 'move', id, ...args);
  if (status !== 1) throw new Error(`berth node move ended with ${status}`);
  return stderr;
}

export function filesOn(node: TestNode, { sftp_username }: Pick<Created, 'sftp_username'>): string {
  return join(node.berth.config.jailDir, sftp_username, 'files');
}

/** A folder of that node's file system that is not its user's. */
export function arrivals(node: TestNode): string {
  return join(node.berth.config.jailDir, '.berth', 'arriving');
}

export interface Move extends AsyncDisposable {
  readonly place: NodesPlace;
  readonly a: TestNode;
  readonly b: TestNode;
  readonly ssh: Ssh;
  readonly directory: Created;
  /** Gets its webhooks. */
  readonly hook: Receiver;
}

/** Two nodes for the tests of a file. Each test has a directory of its own, and ends with both nodes in service. */
export function sharedMoves(): () => Promise<Move> {
  const parts = new AsyncDisposableStack();
  let started: Promise<NodesPlace> | undefined;
  after(() => parts.disposeAsync());
  return async () => aboutToMove(await (started ??= nodesPlace('a', 'b').then((place) => parts.use(place))));
}

/** A directory on a with a file, which is announced. @param shared the nodes, which stay. */
export async function aboutToMove(shared?: NodesPlace): Promise<Move> {
  await using parts = new AsyncDisposableStack();
  const place = shared ?? parts.use(await nodesPlace('a', 'b'));
  const hook = parts.use(await receiver({ eachOnce: true }));
  const [a, b] = [place.node('a'), place.node('b')];
  const ssh = parts.use(sshTo(b));
  const directory = await place.directoryOn(a, b);
  const json = { directory: { webhook_url: hook.url } };
  assert.equal((await a.send('PATCH', `/directories/${directory.id}`, { json })).status, 200);
  await upload(a, directory, 'first');
  await hook.next();
  const owned = parts.move();
  return { place, a, b, ssh, directory, hook, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export async function upload(
  node: TestNode,
  { sftp_username: username, sftp_password: password }: Created,
  name: string,
) {
  await using connection = await connect({ port: node.berth.sshd.port, username, password });
  await (await sftpSession(connection)).put(name, name);
}

/** In use at its new home: new uploads are announced, and nothing else was meanwhile. */
export async function isInUseThere({ b, directory, hook }: Move): Promise<void> {
  await upload(b, directory, 'second');
  await until('it is announced', () => hook.requests.length === 2);
}
