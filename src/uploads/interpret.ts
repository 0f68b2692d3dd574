/**
 * The rules for what sshd's log means: events of sessions in, changes of files out.
 *
 * A file is complete when nobody writes it any more. With several handles on one file the newest decides, once the
 * last is gone: a client that lost its connection and resumed has an old handle that dies late, and that death says
 * nothing about the file. A write that the server refused (a full disk) makes its handle's close worthless: sshd logs
 * such a close like any other, but complains of the write first (sftp-server.c, process_write).
 */
import type { Micros } from '../clock.ts';
import type { BySession, Change, Closed, SessionNote } from './change.ts';
import { filePath } from './file-path.ts';
import type { LogEvent, LogMessage } from './log-line.ts';
import { type Handle, OpenHandles } from './open-handles.ts';
import { type Session, Sessions } from './sessions.ts';

export interface Interpreter {
  readonly sessions: Sessions;
  /** What a message changes. `directory` names the directory of a session that opens. */
  interpret(message: LogMessage, at: Micros, directory: string | undefined): Change[];
  /** A session that was there before the log was, with the paths of the files that it writes. */
  adopt(session: Session, writing: readonly Buffer[]): void;
  /** A session is over, whether or not sshd could say so. */
  end(pid: number, at: Micros): Change[];
  /** Whether a session of the directory holds that inode open for writing. */
  isWritten(directoryId: string, inode: number): boolean;
  /**
   * Whether a process died that had the file open for writing, and has yet to be missed. For live ones the kernel's word
   * counts (`isWritten`): the line that told of the close may be lost.
   */
  isOpen(directoryId: string, path: Buffer): boolean;
}

export interface InterpreterOptions {
  /** Whether the session's process holds the file open for writing, by the kernel's word. */
  holds(session: Session, path: Buffer): boolean;
  isAlive(pid: number): boolean;
  /** Whether the process holds that inode open for writing. */
  writesInode(pid: number, inode: number): boolean;
  /** A name that the log could not tell whole: look at the disk. */
  unclear(session: Session, event: LogEvent & { kind: 'unclear' }, at: Micros): void;
  /** Something for the history. */
  note(note: SessionNote): void;
}

/** How many finished uploads are remembered, in case that they are overwritten before they are recorded. */
const LATEST = 10_000;

/** Requests are logged before they are tried; the answer is logged only when it is a refusal. */
const UNANSWERED: Partial<Record<LogEvent['kind'], Session['unanswered']>> = {
  open: 'open',
  rename: 'change',
  remove: 'change',
  set: 'change',
  // What it means is known without its status.
  'write-refused': 'change',
  unclear: 'change',
  other: 'change',
};

export function createInterpreter(options: InterpreterOptions): Interpreter {
  const sessions = new Sessions();
  const handles = new OpenHandles();
  /** The uploads that were finished last, by the file that each is by now: some have yet to be recorded. */
  const latest = new Map<string, Closed>();

  function interpret({ pid, event }: LogMessage, at: Micros, directory: string | undefined): Change[] {
    if (event.kind === 'session-opened') {
      const changes = end(pid, at); // an earlier process of that number died without a word
      if (directory !== undefined) {
        sessions.add({
          pid,
          directoryId: directory,
          username: event.username,
          address: event.address,
          openedAt: at,
          serves: true,
          unanswered: undefined,
          moved: [],
        });
        options.note({ event: 'session-opened', directoryId: directory, at, by: { pid, address: event.address } });
      }
      return changes;
    }
    const session = sessions.get(pid);
    if (!session) return [];
    session.serves = true;
    const changes = ofSession(session, event, at);
    // Writes are not logged, so a refusal that answers none of these is the answer to a write.
    if (event.kind !== 'complaint') session.unanswered = UNANSWERED[event.kind];
    if (event.kind !== 'rename') session.moved = [];
    return changes;
  }

  function ofSession(session: Session, event: LogEvent, at: Micros): Change[] {
    const { directoryId, pid } = session;
    switch (event.kind) {
      case 'open': {
        const path = filePath(event.name);
        if (path) {
          const writes = event.flags.has('WRITE') || event.flags.has('APPEND');
          const creates = event.flags.has('CREATE');
          const truncates = event.flags.has('TRUNCATE');
          const name = event.name.toString('latin1');
          handles.open({ pid, name, path, writes, creates, truncates, openedAt: at });
          if (writes) overwriting(fileKey(session, path));
        }
        return [];
      }
      case 'close': {
        const handle = handles.close(pid, event.name.toString('latin1'), filePath(event.name));
        return closed(session, handle, event, at);
      }
      case 'rename': {
        const from = filePath(event.from);
        const to = filePath(event.to);
        if (!from || !to) return [];
        session.moved = handles.moved(sessions.pidsOf(directoryId), from, to);
        handles.moveVerdict(fileKey(session, from), fileKey(session, to));
        overwriting(fileKey(session, to));
        closedAt(fileKey(session, to), latest.get(fileKey(session, from)));
        return [{ kind: 'renamed', directoryId, from, path: to, at, by: by(session) }];
      }
      case 'remove':
      case 'set': {
        const path = filePath(event.name);
        const kind = event.kind === 'remove' ? 'removed' : 'touched';
        return path ? [{ kind, directoryId, path, at, by: by(session) }] : [];
      }
      case 'status':
        refused(session, event.text);
        return [];
      case 'write-refused':
        handles.refuse(pid, event.name.toString('latin1'));
        return [];
      case 'unclear':
        options.unclear(session, event, at);
        return [];
      case 'session-closed':
        return end(pid, at);
      case 'session-opened':
      case 'complaint':
      case 'other':
        return [];
    }
  }

  function refused(session: Session, status: string): void {
    stayed(session);
    const held = handles.ofSession(session.pid);
    if (session.unanswered === 'open') {
      const newest = held.at(-1);
      if (newest && !options.holds(session, newest.path)) {
        handles.doubt(session.pid);
        return;
      }
    }
    // errno_to_portable() gives `Failure` for ENOSPC, EDQUOT, EIO and EFBIG.
    if (status !== 'Failure' || session.unanswered === 'change') return;
    for (const handle of held) if (handle.writes) handle.refused = true;
  }

  /** What a refused rename has not moved. The refusal may be the answer to a later stat, say: the kernel knows. */
  function stayed(session: Session): void {
    for (const { handle, from } of session.moved) {
      const holder = sessions.get(handle.pid);
      if (holder && options.holds(holder, handle.path)) continue;
      handles.moveVerdict(fileKey(session, handle.path), fileKey(session, from));
      handle.path = from;
    }
  }

  function closed(
    session: Session,
    handle: Handle | undefined,
    event: LogEvent & { kind: 'close' },
    at: Micros,
  ): Change[] {
    const path = handle?.path ?? filePath(event.name);
    if (!path) return [];
    // A handle that only reads says so also when the file was empty.
    if (event.read > 0 || handle?.writes === false) {
      read(session, path, event.forced, { at, bytes: event.read, beganAt: handle?.openedAt });
    }
    if (event.written > 0 || (handle?.writes === true && (handle.creates || handle.truncates))) {
      handles.judge(fileKey(session, path), {
        order: handle?.order ?? 0,
        complete: !event.forced && handle?.refused !== true,
        size: handle?.truncates ? event.written : undefined,
        openedAt: handle?.openedAt,
      });
    }
    return conclude(session, path, at);
  }

  function read(
    session: Session,
    path: Buffer,
    dropped: boolean,
    about: Pick<SessionNote, 'at' | 'bytes' | 'beganAt'>,
  ): void {
    const event = dropped ? 'download-dropped' : 'downloaded';
    options.note({ event, directoryId: session.directoryId, by: by(session), path, ...about });
  }

  /** A handle of the file has gone: what that means, once nobody writes the file any more. */
  function conclude(session: Session, path: Buffer, at: Micros): Change[] {
    const { directoryId, pid } = session;
    // Processes that were killed say nothing of the end of their handles.
    if (handles.writersOf(sessions.pidsOf(directoryId), path).some(options.isAlive)) return [];
    const verdict = handles.takeVerdict(fileKey(session, path));
    if (!verdict) return [];
    const about = { directoryId, path, at, by: by(session), beganAt: verdict.openedAt };
    if (!verdict.complete) return [{ kind: 'cut-off', ...about }];
    const change: Closed = { kind: 'closed', ...about, pid, size: verdict.size };
    closedAt(fileKey(session, path), change);
    return [change];
  }

  function closedAt(file: string, change: Closed | undefined): void {
    latest.delete(file);
    if (!change) return;
    latest.set(file, change);
    const oldest = latest.size > LATEST ? latest.keys().next().value : undefined;
    if (oldest !== undefined) latest.delete(oldest);
  }

  /** A client may overwrite what it has just closed, and may have done it before the close is recorded. */
  function overwriting(file: string): void {
    const change = latest.get(file);
    if (!change) return;
    change.overwritten = true;
    latest.delete(file);
  }

  function end(pid: number, at: Micros): Change[] {
    const session = sessions.get(pid);
    if (!session) return [];
    const changes: Change[] = [];
    // sshd closes all handles before it says that a session is over, so what is left here died with the process.
    for (const handle of handles.forget(pid)) {
      if (handle.doubtful) continue;
      if (!handle.writes) {
        read(session, handle.path, true, { at, beganAt: handle.openedAt });
        continue;
      }
      const { order, openedAt } = handle;
      handles.judge(fileKey(session, handle.path), { order, complete: false, size: undefined, openedAt });
      changes.push(...conclude(session, handle.path, at));
    }
    sessions.remove(pid);
    const about = { directoryId: session.directoryId, at, by: by(session) };
    if (session.serves) options.note({ event: 'session-closed', ...about, beganAt: session.openedAt });
    return [...changes, { kind: 'session-ended', pid, ...about }];
  }

  return {
    sessions,
    interpret,
    end,
    adopt(session, writing) {
      sessions.add(session);
      for (const path of writing) {
        handles.open({
          pid: session.pid,
          name: undefined,
          path,
          writes: true,
          creates: false,
          truncates: false,
          openedAt: undefined,
        });
      }
    },
    isOpen: (directoryId, path) =>
      handles.writersOf(sessions.pidsOf(directoryId), path).some((pid) => !options.isAlive(pid)),
    isWritten: (directoryId, inode) => [...sessions.pidsOf(directoryId)].some((pid) => options.writesInode(pid, inode)),
  };
}

function by({ pid, address }: Session): BySession {
  return { pid, address };
}

function fileKey(session: Session, path: Buffer): string {
  return `${session.directoryId}/${path.toString('latin1')}`;
}
