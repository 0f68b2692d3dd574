/** Whose session says a line of the log, and what lies where the line is about, without asking the database. */
import { LRUCache } from 'lru-cache';
import { lstatBeneath } from '../../beneath.ts';
import { isUsername } from '../../directories/host.ts';
import { bytesOf, type FilePath, filePath, type FilesRoot } from '../file-path.ts';
import { jailOf } from '../processes.ts';
import { type LogEvent, readEvent } from './log-line.ts';
import type { Session } from './sessions.ts';
import type { KeptLine } from './spool-queues.ts';
import type { Line } from './transfer-log-worker.ts';

/** Sessions that are remembered. The kernel knows the others, as long as they live. */
const REMEMBERED = 20_000;

export interface Speaker {
  readonly user: string;
  readonly address: string;
  /** What the session asked for last, which a refusal may be the answer to. */
  asked?: FilePath | undefined;
}

export class Speakers {
  readonly #filesRoot: FilesRoot;
  readonly #sessionOf: (pid: number) => Pick<Session, 'jail' | 'by'> | undefined;
  readonly #byPid = new LRUCache<number, Speaker>({ max: REMEMBERED });

  /** @param sessionOf a session that is followed already. */
  constructor(filesRoot: FilesRoot, sessionOf: (pid: number) => Pick<Session, 'jail' | 'by'> | undefined) {
    this.#filesRoot = filesRoot;
    this.#sessionOf = sessionOf;
  }

  /** To be asked about every line, since only a session's first one says whose it is. */
  of({ pid, text }: Line): Speaker | undefined {
    if (text.startsWith('session opened ')) {
      const opened = readEvent(text);
      if (opened.kind === 'session-opened') this.#remember(pid, opened.username, opened.address);
    }
    return this.#byPid.get(pid) ?? this.#known(pid);
  }

  /** Lines as they are kept, each with what lies at its path now, by user; without those of which nobody knows whose they are. */
  byUser(lines: readonly Line[]): Map<string, KeptLine[]> {
    const byUser = new Map<string, KeptLine[]>();
    for (const line of lines) {
      const speaker = this.of(line);
      if (!speaker) continue;
      const own = byUser.get(speaker.user) ?? [];
      own.push(this.#kept(line, speaker));
      byUser.set(speaker.user, own);
    }
    return byUser;
  }

  #kept({ at, pid, text }: Line, speaker: Speaker): KeptLine {
    const { user, address } = speaker;
    const path = pathOfEvent(speaker, readEvent(text));
    if (path === undefined) return { at, pid, text, address };
    const stats = lstatBeneath(this.#filesRoot(user), bytesOf(path));
    const seen = stats ? { ino: stats.ino, size: stats.size, mtimeMs: stats.mtimeMs } : null;
    return { at, pid, text, address, seen };
  }

  #known(pid: number): Speaker | undefined {
    const session = this.#sessionOf(pid);
    if (session) return this.#remember(pid, session.jail.sftp_username, session.by.address);
    const user = jailOf(pid);
    return user === undefined ? undefined : this.#remember(pid, user, '');
  }

  #remember(pid: number, user: string, address: string): Speaker | undefined {
    if (!isUsername(user)) return undefined; // the name becomes that of a file
    const speaker: Speaker = { user, address };
    this.#byPid.set(pid, speaker);
    return speaker;
  }
}

/** Where `Interpreter` looks when it hears that. */
function pathOfEvent(speaker: Speaker, event: LogEvent): FilePath | undefined {
  const { asked } = speaker;
  if (event.kind === 'complaint' || event.kind === 'write-refused') return undefined;
  speaker.asked =
    event.kind === 'open' ? filePath(event.name) : event.kind === 'rename' ? filePath(event.to) : undefined;
  if (event.kind === 'status') return asked;
  return event.kind === 'open' || event.kind === 'close' ? filePath(event.name) : undefined;
}
