/** What the kernel gives out in limited numbers: inotify watches and open files. */
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import type { Config } from '../../config.ts';
import { errorMessage } from '../../errors.ts';
import { checkWatches } from '../../sftp/preflight.ts';
import { type Check, fail, type Finding, ok, warn } from '../finding.ts';
import { serveProcess } from '../lock-holder.ts';

/** Of a limit, what may be in use without a word. */
const MUCH = 0.8;

export function limitsCheck(config: Config): Check {
  return {
    name: 'limits',
    async run() {
      const pid = serveProcess(config);
      return [...(await watches(config, pid)), ...openFiles(pid)];
    },
  };
}

async function watches({ jailDir }: Config, pid: number | undefined): Promise<Finding[]> {
  try {
    checkWatches(jailDir);
  } catch (error) {
    return [fail(errorMessage(error), 'put it into /etc/sysctl.d/ too; until then slow scans find what changes')];
  }
  const limit = Number(readFileSync('/proc/sys/fs/inotify/max_user_watches', 'utf8'));
  // The limit is for each user; in its unit berth has one of its own.
  const used = await watchesOf(await userOf(pid ?? process.pid));
  const text = `${used} of ${limit} inotify watches are in use (a folder of a customer takes one)`;
  const remedy = `sysctl fs.inotify.max_user_watches=${limit * 2}, and in /etc/sysctl.d/`;
  return [used > limit * MUCH ? warn(text, remedy) : ok(text)];
}

/** A line `inotify` in proc_pid_fdinfo(5) is a watch. */
async function watchesOf(user: string): Promise<number> {
  let count = 0;
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    if ((await userOf(pid)) !== user) continue;
    for (const fd of await readdir(`/proc/${pid}/fdinfo`).catch(() => [])) {
      const info = await readFile(`/proc/${pid}/fdinfo/${fd}`, 'utf8').catch(() => '');
      count += info.match(/^inotify /gm)?.length ?? 0;
    }
  }
  return count;
}

/** The effective UID of a process; of one that has ended, the empty string. */
async function userOf(pid: number | string): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return /^Uid:\t\d+\t(\d+)/m.exec(status)?.[1] ?? '';
}

function openFiles(pid: number | undefined): Finding[] {
  const [used = 0, , most = 0] = readFileSync('/proc/sys/fs/file-nr', 'utf8').split(/\s+/).map(Number);
  const found: Finding[] = [];
  if (used > most * MUCH)
    found.push(warn(`${used} of the machine's ${most} open files are in use`, `sysctl fs.file-max=${most * 2}`));
  if (pid === undefined) return found;
  const open = readdirSync(`/proc/${pid}/fd`).length;
  const limit = Number(/^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1]);
  const text = `berth serve has ${open} of ${limit} files open`;
  return [...found, open > limit * MUCH ? warn(text, 'raise LimitNOFILE of berth.service') : ok(text)];
}
