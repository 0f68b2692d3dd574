/** Reads sshd's log from systemd's journal, with journalctl. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import { errorCode } from '../../foundation/base/errors.ts';
import type { LogLine, SshdLog } from './sshd-log.ts';

const UNIT = '_SYSTEMD_UNIT=berth-sshd.service';

/** How often the journal is asked for new lines. */
const POLL_MS = 5000;

/** How many processes one query names: what fits into a command line. */
const BATCH = 500;

async function linesNaming(what: string, since: Micros): Promise<LogLine[] | undefined> {
  if ((await entriesOf(['--lines=1', UNIT])).length === 0) return undefined;
  // Two steps, since the other lines of a process show whether to believe a line (`sshd-log.ts`).
  const from = [`--since=@${Math.floor(since / SECOND)}`];
  const naming = await entriesOf([
    ...from,
    `--grep=${what.replaceAll(/[^\w-]/g, String.raw`\$&`)}`,
    '--case-sensitive=yes',
    UNIT,
  ]);
  const pids = [...new Set(naming.map(({ pid }) => pid))];
  const lines: LogLine[] = [];
  for (let at = 0; at < pids.length; at += BATCH) {
    const matches = pids.slice(at, at + BATCH).map((pid) => `_PID=${pid}`);
    lines.push(...(await entriesOf([...from, UNIT, ...matches])));
  }
  return lines.toSorted((a, b) => a.at - b.at);
}

/** `--follow` ends at once where the boot's id is hidden, as in berth.service (ProcSubset): then the journal is asked again and again. */
async function* linesSince(since: Micros, signal: AbortSignal): AsyncGenerator<LogLine> {
  let from = `--since=@${Math.floor(since / SECOND)}`;
  for (let how = ['--follow', '--no-tail']; !signal.aborted; how = []) {
    for await (const line of output([...how, from, UNIT], signal)) {
      const entry = entryOf(line);
      from = `--after-cursor=${entry.__CURSOR}`;
      yield lineOf(entry);
    }
    await wait(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** The lines of journalctl, which ends with the loop that reads them. Without journalctl there are none. */
async function* output(args: readonly string[], signal?: AbortSignal): AsyncGenerator<string> {
  const child = spawn('journalctl', [...FORM, ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
    ...(signal && { signal }),
  });
  // Ignores that there is no journalctl, or that it was ended.
  child.on('error', () => undefined);
  try {
    yield* createInterface({ input: child.stdout });
  } finally {
    child.kill();
  }
}

/** That of the whole journal: it removes its oldest files, whatever units they have lines of. */
async function beginning(): Promise<Micros | undefined> {
  for await (const line of output([])) return lineOf(entryOf(line)).at;
  return undefined;
}

export const journal: SshdLog = { linesNaming, beginning, linesSince };

const FORM = ['--quiet', '--no-pager', '--all', '--output=json', '--output-fields=MESSAGE,_PID,_TRANSPORT'];

async function entriesOf(args: readonly string[]): Promise<LogLine[]> {
  const child = spawn('journalctl', [...FORM, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  try {
    const complaint = text(child.stderr);
    const [lines] = await Promise.all([linesOf(createInterface({ input: child.stdout })), once(child, 'close')]);
    const message = (await complaint).trim();
    if (child.signalCode !== null) throw new Error(`journalctl was ended by ${child.signalCode}`);
    // When --grep finds nothing, the status is 1 and there is no output.
    if (child.exitCode !== 0 && message !== '') throw new Error(`journalctl: ${message.split('\n')[0]}`);
    return lines;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return []; // without systemd
    throw error;
  }
}

async function linesOf(texts: AsyncIterable<string>): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for await (const line of texts) lines.push(lineOf(entryOf(line)));
  return lines;
}

interface JournalEntry {
  /** An array of numbers if the bytes are not printable (systemd's JOURNAL_EXPORT_FORMATS). */
  readonly MESSAGE?: string | readonly number[] | null;
  readonly _PID?: string;
  readonly _TRANSPORT?: string;
  readonly __REALTIME_TIMESTAMP: string;
  readonly __CURSOR: string;
}

const entryOf = (line: string): JournalEntry => JSON.parse(line) as JournalEntry;

function lineOf({ MESSAGE: message, _PID: pid = '', _TRANSPORT: by, __REALTIME_TIMESTAMP: at }: JournalEntry): LogLine {
  const isText = typeof message === 'string';
  return {
    at: Number(at),
    pid,
    message: isText ? message : Buffer.from(message ?? []).toString(),
    isSyslog: by === 'syslog',
  };
}
