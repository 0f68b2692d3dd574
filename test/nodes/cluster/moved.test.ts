/**
 * A directory moves there and back during uploads, and in each round something is killed at a moment that the seed chooses:
 * the command, a `berth serve` or a whole machine. Repeated, the same command moves it. `CLUSTER_ROUNDS=30` for more.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { webhookOf } from '../../support/berth.ts';
import { startCommand } from '../../support/command-line.ts';
import { rounds } from '../../support/long.ts';
import { until } from '../../support/poll.ts';
import { randomOf } from '../../support/random-of.ts';
import { customer, SIZE } from '../customer.ts';
import { moved, type Outcome, sshTo } from '../moving.ts';
import type { Created } from '../nodes-place.ts';
import { cluster, clustered, type ClusterNode } from './cluster.ts';
import { SEED } from '../../support/seed.ts';

const ROUNDS = Number(process.env['CLUSTER_ROUNDS'] ?? rounds(2, 30));

/** The first ms of a move, in which something is killed. */
const LATEST_KILL = 6000;

/** Deliveries in flight at a kill come twice: at most this many in a round. */
const TWICE = 5;

/** How long something may yet come twice, in ms. */
const AFTERWARDS = 6000;

/** Between uploads of a customer, in ms: all files are copied in each round. */
const PAUSE = 200;

const VICTIMS = ['command', 'serve', 'machine'] as const;

test('kill -9 of anything during a move: it is on one node, and nothing is lost', clustered, async (t) => {
  const random = randomOf(SEED);
  const any = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] ?? assert.fail();
  await using place = await cluster({ a: {}, b: {} });
  const [a, b] = [place.node('a'), place.node('b')];
  const directory = await place.directoryOn(a);
  const busy = ['x', 'y'].map((who) => customer(directory, who, [a.config.sftp, b.config.sftp], PAUSE));

  for (let round = 0; round < ROUNDS; round += 1) {
    const [from, to] = round % 2 === 0 ? [a, b] : [b, a];
    using ssh = sshTo(to);
    const command = startCommand(from.environment, [
      'node',
      'move',
      directory.id,
      '--to',
      to.name,
      '--ssh',
      ssh.command,
    ]);
    const ended = once(command, 'exit');
    await wait(random() * LATEST_KILL);
    const [victim, node] = [any(VICTIMS), any([from, to])];
    t.diagnostic(`${from.name} to ${to.name}: ${victim === 'command' ? victim : `${victim} of ${node.name}`}`);
    if (victim === 'command') command.kill('SIGKILL');
    else await killed(node, victim);
    await ended;
    await movedAtLast(from, directory, ['--to', to.name, '--ssh', ssh.command]);
    await until('the old home has nothing of it', async () => {
      const jail = join(from.config.jailDir, directory.sftp_username);
      return !existsSync(jail) && !(await from.users()).has(directory.sftp_username);
    });
    const counts = busy.map(({ complete }) => complete.length);
    await until('uploads go on', () => busy.every(({ complete }, i) => complete.length > (counts[i] ?? 0) + 5));
  }

  await Promise.all(busy.map(({ end }) => end()));
  const complete = busy.flatMap((each) => each.complete);
  const home = ROUNDS % 2 === 0 ? a : b;
  for (const name of complete) {
    const bytes = readFileSync(join(home.config.jailDir, directory.sftp_username, 'files', name));
    assert.ok(bytes.equals(Buffer.alloc(SIZE, name)), `${name} is not what was uploaded`);
  }
  const announced = () => place.receiver.requests.map((request) => webhookOf(request)).filter(isWhole);
  const missing = (): string[] => {
    const names = new Set(announced().map(({ filename }) => filename));
    return complete.filter((name) => !names.has(name));
  };
  await until('every upload is announced', () => missing().length === 0).catch(() => undefined);
  await wait(AFTERWARDS);
  assert.deepEqual(missing(), [], 'these are lost');
  const names = announced().map(({ filename }) => filename);
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  t.diagnostic(`${complete.length} uploads, of which ${twice.length} were announced twice`);
  assert.ok(twice.length <= TWICE * ROUNDS, `these came twice: ${twice.join(', ')}`);
});

/** The remainder of one that was cut off is announced, too. */
function isWhole({ size_bytes: size }: { readonly size_bytes: number }): boolean {
  return size === SIZE;
}

async function killed(node: ClusterNode, what: 'serve' | 'machine'): Promise<void> {
  if (what === 'machine') {
    await node.powerOff();
    await node.startSshd();
  } else {
    await node.serve().kill('SIGKILL');
  }
  await node.startHealthy();
}

/** Like an operator who repeats the command until the directory has moved. */
async function movedAtLast(from: ClusterNode, directory: Created, args: readonly string[]): Promise<void> {
  let outcome: Outcome | undefined;
  await until('it has moved', async () => {
    outcome = await moved(from, directory, ...args).catch((error: unknown) => {
      assert.match(
        String(error),
        /being moved already|still removes|earlier copy still runs|is away|does not run here/,
      );
      return undefined;
    });
    return outcome?.is_live ?? false;
  });
}
