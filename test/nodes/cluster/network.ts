/**
 * Machines on a network of their own: network namespaces, each with a cable to one switch (a bridge), at which this process
 * is, too. A namespace lives as long as its keeper, which ends with this process, however that ends; the kernel takes cables and
 * switch away with it.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { promisify } from 'node:util';

/** Reserved for tests of networks (RFC 2544), so not used on the internet. */
const RANGE = '198.18';

const PROBE = 'ip link add cable type veth peer name end && ip link add switch type bridge';

/** Why there can be no such network here, if so. */
export function obstacle(): string | undefined {
  const [made, entered] = [
    spawnSync('unshare', ['--net', 'sh', '-c', PROBE]),
    spawnSync('nsenter', ['--net=/proc/self/ns/net', 'true']),
  ];
  if (made.status === 0 && entered.status === 0) return undefined;
  return 'this machine makes no network namespaces, or lacks ip or nsenter';
}

/** Reports that its namespace exists, waits for the end of this process, and then ends all processes in it. */
const KEEPER = `
ip link set lo up
echo
cat >/dev/null
own=$(readlink "/proc/$$/ns/net")
while :; do
  left=
  for process in /proc/[0-9]*; do
    if [ "$process" != "/proc/$$" ] && [ "$(readlink "$process/ns/net")" = "$own" ]; then
      kill -KILL "\${process#/proc/}" && left=yes
    fi
  done
  [ "$left" ] || exit 0
done`;

export interface Machine {
  readonly address: string;
  /** What a command has to be run by to run there. */
  readonly by: readonly string[];
  unplug(): Promise<void>;
  plug(): Promise<void>;
}

export interface Network extends AsyncDisposable {
  /** The address of this process. */
  readonly address: string;
  /** All addresses of it, as a CIDR. */
  readonly range: string;
  machine(): Promise<Machine>;
}

/** Ends, with its machines and all that runs on them, when it is disposed of. */
export async function network(): Promise<Network> {
  await using parts = new AsyncDisposableStack();
  const theSwitch = parts.use(await namespace());
  const { number, name } = await connected(theSwitch.pid);
  const address = `${RANGE}.${number}.1`;
  await theSwitch.run('ip link add switch type bridge');
  await theSwitch.run('ip link set uplink master switch up');
  await theSwitch.run('ip link set switch up');
  await command(`ip address add ${address}/24 dev ${name}`);
  await command(`ip link set ${name} up`);
  let last = 10;
  const owned = parts.move();
  return {
    address,
    range: `${RANGE}.${number}.0/24`,
    async machine() {
      const its = owned.use(await namespace());
      const [own, port] = [`${RANGE}.${number}.${(last += 1)}`, `port${last}`];
      await theSwitch.run(`ip link add ${port} type veth peer name eth0 netns ${its.pid}`);
      await theSwitch.run(`ip link set ${port} master switch up`);
      await its.run(`ip address add ${own}/24 dev eth0`);
      await its.run('ip link set eth0 up');
      return {
        address: own,
        by: its.by,
        unplug: () => theSwitch.run(`ip link set ${port} down`),
        plug: () => theSwitch.run(`ip link set ${port} up`),
      };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A cable from this process to that namespace, under a name that no other test has. */
async function connected(pid: number): Promise<{ number: number; name: string }> {
  for (let tries = 0; ; tries += 1) {
    const number = randomInt(1, 255);
    const name = `berth-test-${number}`;
    try {
      await command(`ip link add ${name} type veth peer name uplink netns ${pid}`);
      return { number, name };
    } catch (error) {
      if (tries > 20 || !/File exists/.test(String(error))) throw error;
    }
  }
}

async function namespace() {
  const keeper = spawn('unshare', ['--net', 'sh', '-c', KEEPER], {
    stdio: ['pipe', 'pipe', 'ignore'],
    // In a session of its own: Ctrl-C ends only the others.
    detached: true,
  });
  const failed = once(keeper, 'exit').then(() => Promise.reject(new Error('no namespace could be made')));
  await Promise.race([once(keeper.stdout, 'data'), failed]);
  failed.catch(() => undefined);
  const pid = keeper.pid ?? 0;
  const by = ['nsenter', `--net=/proc/${pid}/ns/net`];
  return {
    pid,
    by,
    run: (line: string) => command([...by, line].join(' ')),
    [Symbol.asyncDispose]: () => ended(keeper),
  };
}

async function ended(keeper: ChildProcess): Promise<void> {
  keeper.stdin?.end();
  if (keeper.exitCode === null && keeper.signalCode === null) await once(keeper, 'exit');
}

async function command(line: string): Promise<void> {
  const [program = '', ...args] = line.split(' ');
  await promisify(execFile)(program, args);
}
