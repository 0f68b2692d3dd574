/** Reads sshd's log from the file that scripts/lib/sshd-log keeps in scripts/start and in the container. */
import { createReadStream, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import type { Micros } from '../../foundation/base/clock.ts';
import { errorCode } from '../../foundation/base/errors.ts';
import { isThere } from '../../foundation/base/files.ts';
import type { LogLine, SshdLog } from './sshd-log.ts';
import { journal } from './journal.ts';

/** How often a followed file is read. */
const POLL_MS = 500;
const CHUNK_BYTES = 65_536;

/** A line of the file: its time, the program, its process, the message. */
const LINE = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})Z ([\w-]+)\[(\d+)\]: (.*)$/;

/** The name under which openssh/admit logs, by logger(1). */
const HOOK = 'berth-sshd';

function sshdLogFile(folder: string): SshdLog {
  const previous = join(folder, 'previous');
  const current = join(folder, 'current');

  async function* written(since: Micros): AsyncGenerator<LogLine> {
    for (const file of [previous, current]) for await (const text of linesOf(file)) yield* linesIn([text], since);
  }

  return {
    /** Reads the file twice: first to find the processes that name `what`, then for all their lines. */
    async linesNaming(what, since) {
      const pids = new Set<string>();
      for await (const { pid, message } of written(since)) if (message.includes(what)) pids.add(pid);
      const lines: LogLine[] = [];
      for await (const line of written(since)) if (pids.has(line.pid)) lines.push(line);
      return lines;
    },

    async beginning() {
      for await (const { at } of written(0)) return at;
      return undefined;
    },

    async *linesSince(since, signal) {
      // Opened before the older file is read: it may be renamed to that one's name at any time.
      let file = await openIfThere(current);
      try {
        if (!(file && (await isAt(file, previous))))
          for await (const text of linesOf(previous)) yield* linesIn([text], since);
        for (let left = ''; !signal.aborted;) {
          file ??= await openIfThere(current);
          const isOld = file !== undefined && !(await isAt(file, current));
          const { texts, partial } = await readOn(file, left);
          left = partial;
          yield* linesIn(texts, since);
          if (texts.length > 0) continue;
          if (isOld) {
            await file?.close();
            file = undefined;
          } else await wait(POLL_MS, undefined, { signal }).catch(() => undefined);
        }
      } finally {
        await file?.close();
      }
    },
  };
}

async function* linesOf(file: string): AsyncGenerator<string> {
  if (isThere(file)) yield* createInterface({ input: createReadStream(file) });
}

function* linesIn(texts: readonly string[], since: Micros): Generator<LogLine> {
  for (const text of texts) {
    const line = lineIn(text);
    if (line && line.at >= since) yield line;
  }
}

/** The complete lines that were written since the last reading, and the beginning of the next one. */
async function readOn(file: FileHandle | undefined, left: string): Promise<{ texts: string[]; partial: string }> {
  const { bytesRead = 0, buffer } = (await file?.read(Buffer.alloc(CHUNK_BYTES), 0, CHUNK_BYTES)) ?? {};
  const texts = (left + (buffer?.toString('latin1', 0, bytesRead) ?? '')).split('\n');
  return { partial: texts.pop() ?? '', texts };
}

async function openIfThere(file: string): Promise<FileHandle | undefined> {
  try {
    return await open(file, 'r');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Whether the file still has that name. A full file is renamed. */
async function isAt(file: FileHandle, path: string): Promise<boolean> {
  return (await file.stat()).ino === statSync(path, { throwIfNoEntry: false })?.ino;
}

function lineIn(text: string): LogLine | undefined {
  const [found, time = '', micros, program, pid = '', message = ''] = LINE.exec(text) ?? [];
  if (found === undefined) return undefined;
  return { at: Date.parse(`${time}Z`) * 1000 + Number(micros), pid, message, isSyslog: program === HOOK };
}

/** The log in the file that scripts/lib/sshd-log keeps in a trial and in the container, otherwise in systemd's journal. */
export function sshdLogOf({ stateDir }: { readonly stateDir: string }): SshdLog {
  const folder = join(stateDir, 'sshd-log');
  return isThere(folder) ? sshdLogFile(folder) : journal;
}
