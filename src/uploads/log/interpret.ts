/**
 * What sshd's log means: each event of a session becomes evidence in the ledger.
 *
 * Requests are logged before they are tried, and of their answers only refusals are. Some requests are not logged at
 * all (reads, writes, stats), so a refusal may be the answer to one of those: the disk tells which.
 */
import type { Stats } from 'node:fs';
import type { Micros } from '../../clock.ts';
import { type FilePath, filePath } from '../file-path.ts';
import type { BySession, SessionNote } from '../record/evidence.ts';
import type { Handle } from '../record/handle.ts';
import type { HandleEnd, Ledger, Place } from '../record/ledger.ts';
import type { Change, Entry } from '../record/namespace.ts';
import { LOG_LAG, TIMER_GRAIN } from '../record/file-stat.ts';
import type { LogEvent } from './log-line.ts';
import { type Asked, Session, type Sessions } from './sessions.ts';

/** sshd's complaint about a write shows that many bytes of a name (`"%.100s"` in sftp-server.c). */
const NAME_SHOWN = 100;

export interface InterpretOptions {
  readonly ledger: Ledger;
  readonly sessions: Sessions;
  lstat(place: Place, path: FilePath): Stats | undefined;
  /** A name that the log could not tell whole. */
  unclear(session: Session, event: LogEvent & { kind: 'unclear' }, at: Micros): void;
  /** Something for the history. */
  note(note: SessionNote): void;
  /** A session is over: nobody renames what it left under temporary names. */
  over(place: Place, by: BySession, at: Micros): void;
}

export type Interpreter = ReturnType<typeof createInterpreter>;

export function createInterpreter({ ledger, sessions, lstat, unclear, note, over }: InterpretOptions) {
  let order = 0;

  function opened(session: Session, event: LogEvent & { kind: 'open' }, at: Micros): Asked {
    const path = filePath(event.name);
    if (!path) return { kind: 'other' };
    const { flags, name } = event;
    const writes = flags.has('WRITE') || flags.has('APPEND');
    const inode = writes ? inodeOf(session.place, path, flags.has('TRUNCATE') ? at : 0) : undefined;
    const handle = {
      pid: session.pid,
      name,
      path,
      openedAt: at,
      order: ++order,
      inode,
      creates: flags.has('CREATE'),
      truncates: flags.has('TRUNCATE'),
      isRefused: false,
      isDoubtful: false,
    };
    const kept = writes ? ledger.open(session.place, handle) : { ...handle, entry: undefined };
    session.add(kept);
    return { kind: 'open', handle: kept };
  }

  /** Of the file that was opened, unless the path is another's by now: one that was emptied since then is new. */
  function inodeOf(place: Place, path: FilePath, emptiedAt: Micros): number | undefined {
    const stats = lstat(place, path);
    return stats && stats.mtimeMs * 1000 >= emptiedAt - TIMER_GRAIN ? stats.ino : undefined;
  }

  function closed(session: Session, event: LogEvent & { kind: 'close' }, at: Micros): void {
    const path = filePath(event.name);
    if (!path) return;
    const handle = session.take(event.name, path);
    // A handle that only reads says so also when the file was empty.
    if (event.read > 0 || (handle && !handle.entry)) {
      const kind = event.forced ? 'download-dropped' : 'downloaded';
      const about = { at, by: session.by, path: handle?.entry?.path ?? path, bytes: event.read };
      note({ event: kind, directoryId: session.place.id, ...about, beganAt: handle?.openedAt });
    }
    const writer = handle ?? (event.written > 0 ? unknownHandle(session, path) : undefined);
    if (!writer?.entry) return;
    const changed = event.written > 0 || writer.creates || writer.truncates;
    ledger.release(writer, changed ? endOf(session, writer, event, at) : undefined);
  }

  function endOf(session: Session, handle: Handle, event: LogEvent & { kind: 'close' }, at: Micros): HandleEnd {
    return {
      isComplete: !event.forced && !handle.isRefused,
      at,
      by: session.by,
      bytes: handle.truncates ? event.written : undefined,
      isDoubted: handle.order <= session.doubtedUpTo,
    };
  }

  /** Its open was not heard. */
  function unknownHandle(session: Session, path: FilePath, inode = lstat(session.place, path)?.ino): Handle {
    return ledger.open(session.place, {
      pid: session.pid,
      name: undefined,
      path,
      openedAt: undefined,
      order: ++order,
      inode,
      creates: false,
      truncates: false,
      isRefused: false,
      isDoubtful: false,
    });
  }

  function askedFor(change: Change | undefined): Asked {
    return change ? { kind: 'change', change } : { kind: 'other' };
  }

  /** What a session asks for from here on; undefined when it asks for nothing that could be refused. */
  function asked(session: Session, event: LogEvent, at: Micros): Asked | undefined {
    const { place, by } = session;
    switch (event.kind) {
      case 'open':
        return opened(session, event, at);
      case 'close':
        closed(session, event, at);
        return undefined;
      case 'rename': {
        const [from, to] = [filePath(event.from), filePath(event.to)];
        return askedFor(from && to ? ledger.rename(place, { from, to, by, at }) : undefined);
      }
      case 'remove': {
        const path = filePath(event.name);
        return askedFor(path ? ledger.remove(place, path, by, at) : undefined);
      }
      case 'set': {
        const path = filePath(event.name);
        // It may be a handle's name, whose file has another by now.
        for (const handle of session.handles.get(event.name) ?? [])
          if (handle.entry) ledger.set(place, handle.entry, event);
        if (path) ledger.set(place, path, event);
        return { kind: 'other' };
      }
      case 'unclear':
        unclear(session, event, at);
        return { kind: 'other' };
      case 'status':
        refused(session, event.text);
        return undefined;
      case 'write-refused':
        refuseWrites(session, event.name);
        return session.asked;
      case 'complaint':
        return session.asked;
      case 'session-opened':
      case 'session-closed':
      case 'other':
        return { kind: 'other' };
    }
  }

  function refused(session: Session, status: string): void {
    if (session.isComplaining) return;
    const { asked: request } = session;
    if (request?.kind === 'other') return;
    if (request?.kind === 'change' && wasRefused(session.place, request.change, status)) return request.change.undo();
    if (request?.kind === 'open' && mayHaveFailed(session, request.handle)) return;
    // The answer to something that is not logged. A write of which a part had room gives this one, and no complaint.
    if (status === 'Failure') session.doubtedUpTo = order;
  }

  /**
   * Whether a change that a refusal follows was refused. In doubt it was: what a look finds under the new name all the
   * same is told by its inode. `Failure` is what a rename onto another file gets, and hardly anything that is not logged.
   */
  function wasRefused(place: Place, { to, entry }: Change, status: string): boolean {
    const arrived = to === undefined ? undefined : lstat(place, to);
    return !arrived || !mayBe(entry, arrived, status === 'Failure');
  }

  /** Without a file there is no handle. With one, the kernel is asked when it matters. */
  function mayHaveFailed(session: Session, handle: Handle): boolean {
    const isThere = lstat(session.place, handle.path) !== undefined;
    const dropped = isThere && handle.entry ? session.doubt(handle) : handle;
    if (dropped) {
      session.forget(dropped);
      ledger.release(dropped, undefined);
    }
    return true;
  }

  function refuseWrites(session: Session, start: string): void {
    const exact = session.handles.get(start);
    const meant = exact ?? session.all().filter(({ name }) => !name || name.slice(0, NAME_SHOWN) === start);
    for (const handle of meant) handle.isRefused = true;
  }

  function end(pid: number, at: Micros): void {
    const session = sessions.get(pid);
    if (!session) return;
    const { place, by } = session;
    sessions.remove(pid);
    // sshd closes all handles before it says that a session is over, so what is left here died with the process.
    for (const handle of session.all()) {
      if (handle.entry) {
        const dropped = { isComplete: false, at, by, bytes: undefined, isDoubted: false };
        ledger.release(handle, handle.isDoubtful ? undefined : dropped);
      } else if (!handle.isDoubtful) {
        const about = { at, by, path: handle.path, beganAt: handle.openedAt };
        note({ event: 'download-dropped', directoryId: place.id, ...about });
      }
    }
    over(place, by, at);
    const about = { directoryId: place.id, at, by };
    if (session.serves) note({ event: 'session-closed', ...about, beganAt: session.openedAt });
  }

  return {
    /** A session has begun. */
    begin(pid: number, address: string, place: Place, at: Micros): void {
      const by = { pid, address };
      sessions.add(new Session(place, by, { openedAt: at, serves: true }));
      note({ event: 'session-opened', directoryId: place.id, at, by });
    },

    /** A session that was there before the log was, with the files that it writes. */
    adopt(session: Session, writing: readonly { path: FilePath; inode: number }[]): void {
      sessions.add(session);
      for (const { path, inode } of writing) session.add(unknownHandle(session, path, inode));
    },

    interpret(session: Session, event: LogEvent, at: Micros): void {
      session.serves = true;
      session.asked = asked(session, event, at);
      session.isComplaining = event.kind === 'complaint' || event.kind === 'write-refused';
    },

    /** A session is over, whether or not sshd could say so. */
    end,
  };
}

/** Whether that may be the entry's file: by its inode, or else, unless `isStrict`, by its size and time. */
function mayBe(entry: Entry, { ino, size, mtimeMs }: Stats, isStrict: boolean): boolean {
  const last = entry.closes.at(-1);
  const inode = last?.inode ?? [...entry.writers].find((handle) => handle.inode !== undefined)?.inode;
  if (inode !== undefined || !last || isStrict) return inode === ino;
  const isOlder = last.openedAt !== undefined && mtimeMs * 1000 < last.openedAt - LOG_LAG;
  return !isOlder && (last.bytes === undefined || last.bytes === size);
}
