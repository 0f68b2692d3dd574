/**
 * A `journalctl` for machines without systemd: it prints what sshd has written in the form of the journal, whatever it is
 * asked for. sshd has a process for each connection, which is identified here by the client's port.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** @param begins when its oldest line was written, in ms. @returns the folder to put in front of PATH. */
export function journalOf(dir: string, output: string, begins = Date.now() - 7 * 86_400_000): string {
  const folder = join(dir, 'journal');
  mkdirSync(folder, { recursive: true });
  const now = Date.now() * 1000;
  const lines = output.split('\n').filter((line) => line !== '');
  const portIn = (line: string | undefined): string | undefined => / 127\.0\.0\.1 port (\d+)/.exec(line ?? '')?.[1];
  const entries = lines.map((message, index) => {
    // openssh/admit has a process of its own. What else names no client belongs to the line before, or is the beginning of a
    // name with line ends in it.
    const belongs = message.startsWith('Access denied') ? lines.slice(0, index).toReversed() : lines.slice(index);
    const port = portIn(belongs.find((line) => portIn(line) !== undefined));
    const pid = message.startsWith('Login of') ? `1${index}` : (port ?? '1');
    return JSON.stringify({ MESSAGE: message, _PID: pid, __REALTIME_TIMESTAMP: String(now + index) });
  });
  const first = JSON.stringify({
    MESSAGE: 'Server listening on 0.0.0.0 port 22.',
    _PID: '0',
    __REALTIME_TIMESTAMP: String(begins * 1000),
  });
  writeFileSync(join(folder, 'entries'), `${[first, ...entries].join('\n')}\n`);
  writeFileSync(
    join(folder, 'journalctl'),
    `#!/bin/sh\ncase "$*" in *--follow*) exec tail -n +1 -f ${folder}/entries;; esac\ncat ${folder}/entries\n`,
  );
  chmodSync(join(folder, 'journalctl'), 0o755);
  return folder;
}
