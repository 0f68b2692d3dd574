/**
 * What a look at a file means: a pure function of what the log has said, what the disk shows and what is recorded.
 *
 * The disk has the last word about what is there, the log about what was uploaded: a file that is closed, overwritten
 * and closed again before anybody looks was uploaded twice, though only the second upload can be seen.
 */
import type { FileState } from '../../db/schema.ts';
import type { Announcement, Decision, Effects, Event, Look, NewRow, Recorded } from './decision.ts';
import type { Close, Removal, Rename } from './evidence.ts';
import { type FileStat, isCopy, isFileOf, isSame, LOG_LAG, TIMER_GRAIN, UNSEEN } from './file-stat.ts';
import { isLike } from './unmatched.ts';

const NOTHING: Effects = { announce: [], events: [] };

export function decide(look: Look): Decision {
  const { stat, row, removal } = look;
  const last = look.closes.at(-1);
  if (!stat || (last && isAnother(look, stat, last))) return absent(look);
  if (last && isYetToReplace(look, stat, last)) {
    if (look.seen === undefined) return { wait: 'barrier' };
    return look.isFresh ? { wait: 'rest' } : toldAlone(look);
  }
  if (last && isOutdated(look, stat, last)) {
    const isFoundBefore = row?.source === 'disk' && row.state !== 'placed';
    return isFoundBefore ? NOTHING : toldAlone(look);
  }
  if (look.isPlaced) return placed(look, stat);
  if (last?.isUnwritten && row && row.state !== 'partial' && isSame(row, stat)) return NOTHING;
  if (last) return closed(look, stat, last);
  if (removal && row) {
    // Another file: its own close will tell of it.
    if (!isFileOf(row, stat)) return { ...NOTHING, ...removed(look, row, removal) };
    if (look.isFresh) return { wait: 'rest' };
  }
  return unchanged(look, stat) ?? moved(look, stat) ?? found(look, stat);
}

/** The file that was closed is elsewhere; what is there now is told by its own evidence. */
function isAnother({ wasSet, twin }: Look, stat: FileStat, close: Close): boolean {
  const { inode, bytes, openedAt } = close;
  // Recorded under another name, and unchanged since: it came by a rename that is still to be heard.
  if (twin && isSame(twin, stat) && bytes !== undefined && bytes !== stat.size_bytes) return true;
  // Whose inode was seen may have been another file's, which had its name for a moment.
  if (inode !== undefined && inode !== stat.inode && !isLike(close, stat)) return true;
  const isOlder = openedAt !== undefined && stat.mtime < openedAt - LOG_LAG && !wasSet;
  return isOlder && bytes !== undefined && bytes !== stat.size_bytes;
}

/** The file that it was renamed onto is still there: sshd is about to try that rename, or to say that it was refused. */
function isYetToReplace({ row, rename }: Look, stat: FileStat, close: Close): boolean {
  return rename !== undefined && row !== undefined && close.at > row.uploaded_at && isSame(row, stat);
}

/** What is recorded is newer: a scan was faster than the log, or a later upload was told of first. */
function isOutdated({ row }: Look, stat: FileStat, close: Close): boolean {
  return row !== undefined && close.at <= row.uploaded_at && isSame(row, stat);
}

/** Nothing is there: it was removed or renamed since, or is about to be. */
function absent(look: Look): Decision {
  const { row, removal, closes } = look;
  const last = closes.at(-1);
  // What the log says next tells where it went.
  if (last && look.seen === undefined) return { wait: 'barrier' };
  const isLost = last !== undefined || look.rename !== undefined;
  if (!last && look.rename && look.isFresh) return { wait: 'rest' };
  const gone = { ...toldAlone(look), isLost };
  if (!row || look.stat) return gone;
  if (removal || look.isGone) return { ...gone, ...removed(look, row, removal) };
  return isLost ? gone : { wait: 'rest', isLost: true };
}

/** The uploads are announced by the word of the log; their file is elsewhere, if it is anywhere. */
function toldAlone(look: Look): Effects {
  return { ...NOTHING, announce: told(look, look.closes), unmatched: unmatched(look, look.closes) };
}

/** What is told of them need not be told again. */
function unmatched({ isTemporary }: Look, closes: readonly Close[]): Close[] {
  return closes.map((close) => ({ ...close, isTold: isSayable(close) && !isTemporary(close.path) }));
}

function removed({ path, now }: Look, row: Recorded, removal: Removal | undefined): Pick<Effects, 'events' | 'remove'> {
  const { at, by } = removal ?? { at: now, by: undefined };
  return { events: [{ event: 'removed', path, at, by, bytes: row.size_bytes }], remove: row };
}

/** Uploads that cannot be seen any more, by the word of the log alone. */
function told({ row, isTemporary }: Look, closes: readonly Close[]): Announcement[] {
  return closes
    .filter((close) => isSayable(close) && !close.isTold && !isTemporary(close.path))
    .map((close) => announcement(close, close.bytes ?? close.sizeSeen ?? row?.size_bytes ?? 0));
}

/** Whether the log's word is enough. */
function isSayable({ isComplete, isUnproven }: Close): boolean {
  return isComplete && !isUnproven;
}

/** A handle that wrote the file has gone, and it is the last one. */
function closed(look: Look, stat: FileStat, last: Close): Decision {
  const before = [...renamedBefore(look, stat), ...told(look, look.closes.slice(0, -1))];
  // The disk has not kept all that was written.
  const isCut = last.isUnproven === true && stat.size_bytes !== (last.bytes ?? last.sizeSeen);
  if (isCut) return dropped(look, stat, { ...last, bytes: undefined }, before);
  const uploaded = last.isComplete ? uploadedStat(look, stat, last) : stat;
  if (!uploaded) return { wait: 'barrier' };
  const isShort = last.isDoubted && last.bytes !== undefined && uploaded.size_bytes > last.bytes;
  if (!last.isComplete || isShort) return dropped(look, stat, last, before);
  // What is being written anew cannot be kept as it was.
  if (!look.isReopened && !isSynced(look, stat)) return { wait: 'sync' };
  // What has not been announced must not look like it: should its close be lost in a crash, a scan finds it.
  const seen = isSame(uploaded, stat) || last.isResized ? stat : { ...stat, mtime: UNSEEN };
  if (look.isTemporary(last.path) && look.isTemporary(look.path) && look.livePids.includes(last.by.pid)) {
    return { ...NOTHING, announce: before, put: { row: newRow(seen, last, { state: 'waiting', pid: last.by.pid }) } };
  }
  const path = look.isTemporary(last.path) ? look.path : last.path;
  const upload = { ...announcement(last, uploaded.size_bytes), path };
  return {
    ...NOTHING,
    announce: last.isTold ? before : [...before, upload],
    events: path === look.path || !look.rename ? [] : [renamedEvent(look, look.rename, uploaded.size_bytes)],
    put: { row: newRow(seen, last, { state: 'uploaded' }) },
    // Overwritten, or the log was wrong about their name. The inode of what was overwritten in its place is now that of the next.
    unmatched: [
      ...unmatched(look, look.closes.slice(0, -1)),
      ...(uploaded.mtime === UNSEEN ? [{ ...last, isTold: true }] : []),
    ].map((close) => ({ ...close, inode: close.inode === stat.inode ? undefined : close.inode })),
  };
}

/** An upload that was complete with its rename to a final name, and was overwritten before anybody looked. */
function renamedBefore({ path, closes, twin, rename, isTemporary }: Look, stat: FileStat): Announcement[] {
  if (twin?.state !== 'waiting' || !rename || isTemporary(path) || !isFileOf(twin, stat)) return [];
  // Closed again before its rename: then that close counts.
  if (closes.some(({ from }) => from !== undefined)) return [];
  return [{ path, from: rename.from, at: rename.at, by: rename.by, bytes: twin.size_bytes }];
}

/**
 * What the file was when its last upload was complete. A client may overwrite a file right after it closed it, and then
 * lstat tells of another; or it wrote some bytes twice, or left gaps, and then lstat alone tells the size. sshd logs an
 * open before it tries it: once the log has been heard up to the look, it is known which of the two it was.
 */
function uploadedStat({ seen, isReopened }: Look, stat: FileStat, close: Close): FileStat | undefined {
  const { at, bytes = close.sizeSeen } = close;
  if (bytes === undefined || bytes === stat.size_bytes) return stat;
  if (isReopened || close.isResized || stat.mtime > at + TIMER_GRAIN)
    return { ...stat, size_bytes: bytes, mtime: UNSEEN };
  return seen ?? undefined;
}

function dropped(look: Look, stat: FileStat, last: Close, announce: readonly Announcement[]): Effects {
  // Nothing had been written.
  if (look.row && isSame(look.row, stat)) return { ...NOTHING, announce };
  const event = (bytes: number): Event[] => [
    { ...announcement(last, bytes), path: look.path, event: 'upload-dropped' },
  ];
  if (!isWrittenSince(look, stat, last)) {
    return {
      ...NOTHING,
      announce,
      events: event(stat.size_bytes),
      put: { row: newRow(stat, last, { state: 'partial' }) },
    };
  }
  // A later upload, which the log is still to tell of, must not look like this one, whose file may be elsewhere by now.
  const row = newRow({ ...stat, mtime: UNSEEN }, last, { state: 'partial' });
  return { ...NOTHING, announce, events: event(last.bytes ?? 0), put: { row }, unmatched: [last] };
}

/** Whether another handle wrote the file after that one, whose whole life was heard, had gone. */
function isWrittenSince({ wasSet }: Look, stat: FileStat, { bytes, openedAt, at }: Close): boolean {
  if (bytes === undefined || openedAt === undefined || wasSet) return false;
  return bytes !== stat.size_bytes && stat.mtime > at + TIMER_GRAIN;
}

/** The API has put it there: it is recorded, and no upload. What was uploaded before has been replaced by it. */
function placed(look: Look, stat: FileStat): Effects {
  const { now, row, removal, rename, closes } = look;
  const put = { row: { ...stat, state: 'placed', uploaded_at: now, source: 'disk', session_pid: null } } as const;
  const events = removal && row ? removed(look, row, removal).events : [];
  // It took the place of a file that had been renamed to here.
  return { ...NOTHING, announce: told(look, closes), events, put, isLost: rename !== undefined };
}

/** The file at the path is the one that is recorded there. */
function unchanged(look: Look, stat: FileStat): Decision | undefined {
  const { row } = look;
  if (!row) return undefined;
  const isOwn = isSame(row, stat);
  // Times or a size were set, or the whole jail was copied.
  const wasTouched = row.mtime !== UNSEEN && row.inode === stat.inode && look.wasSet;
  if (!isOwn && !wasTouched && !isCopy(row, stat)) return undefined;
  if (wasTouched && mayBeWritten(look, row, stat)) return look.isReopened ? NOTHING : { wait: 'barrier' };
  const isCurrent = isOwn && row.inode >= 0;
  const isAbandoned = row.state === 'waiting' && row.session_pid !== null && !look.livePids.includes(row.session_pid);
  if (!isAbandoned) return isCurrent ? NOTHING : { ...NOTHING, change: { of: row, to: stat } };
  // The session that might have renamed it is over.
  const { at, by } = look.sessionEnd ?? { at: look.now, by: undefined };
  return {
    ...NOTHING,
    announce: [{ path: look.path, at, by, bytes: row.size_bytes }],
    change: { of: row, to: { ...stat, state: 'uploaded', uploaded_at: at, session_pid: null } },
  };
}

/** Whether another size than the recorded one may come from a handle, whose open has perhaps not been heard. */
function mayBeWritten({ seen, isReopened }: Look, row: Recorded, stat: FileStat): boolean {
  if (row.size_bytes === stat.size_bytes) return false;
  return isReopened || !seen || !isSame(seen, stat);
}

/** The file is recorded under an earlier name: the row follows it. One that waited for a final name is complete now. */
function moved(look: Look, stat: FileStat): Decision | undefined {
  const { twin, rename } = look;
  if (!twin) return restored(look, stat);
  const wasSet = look.wasSet && isFileOf(twin, stat);
  const isWritten = wasSet && mayBeWritten(look, twin, stat);
  if (isWritten && !look.isReopened) return { wait: 'barrier' };
  const isExplained = isSame(twin, stat) || (wasSet && !isWritten);
  // Without a rename it may be another file, which got the inode of one that has gone.
  if (!isExplained && !(rename && isFileOf(twin, stat))) return undefined;
  const to = isExplained ? stat : {};
  const from = twin.path.toString('latin1');
  const { at, by } = rename ?? { at: look.now, by: undefined };
  const about = { path: look.path, from, at, by, bytes: twin.size_bytes };
  if (twin.state !== 'waiting' || look.isTemporary(look.path)) {
    return { ...NOTHING, events: [{ ...about, event: 'renamed' }], change: { of: twin, to } };
  }
  if (!isSynced(look, stat)) return { wait: 'sync' };
  const complete = { ...to, state: 'uploaded', uploaded_at: at, session_pid: null } as const;
  return { ...NOTHING, announce: [about], change: { of: twin, to: complete } };
}

/** Its row went before it was seen under its new name. */
function restored({ removedRow }: Look, stat: FileStat): Effects | undefined {
  if (!removedRow) return undefined;
  const { id, state, uploaded_at, source, session_pid } = removedRow;
  return { ...NOTHING, put: { id, row: { ...stat, state, uploaded_at, source, session_pid } } };
}

/** A file that differs from what is recorded, with no word of the log to explain it. */
function found(look: Look, stat: FileStat): Decision {
  if (!look.isRested) return { wait: 'rest' };
  if (!look.isUnexplained) return { wait: 'explanation' };
  if (look.isDoubted) return unproven(look, stat);
  if (!isSynced(look, stat)) return { wait: 'sync' };
  const row = { ...stat, uploaded_at: look.now, source: 'disk' } as const;
  const [pid] = look.livePids;
  if (pid !== undefined && look.isTemporary(look.path)) {
    return { ...NOTHING, put: { row: { ...row, state: 'waiting', session_pid: pid } } };
  }
  const upload = { path: look.path, at: look.now, bytes: stat.size_bytes };
  return { ...NOTHING, announce: [upload], put: { row: { ...row, state: 'uploaded', session_pid: null } } };
}

/** It may be whole, and nobody knows: a client resumes it, or an operator decides. */
function unproven({ path, now }: Look, stat: FileStat): Effects {
  const row = { ...stat, state: 'partial', uploaded_at: now, source: 'disk', session_pid: null } as const;
  return { ...NOTHING, events: [{ event: 'upload-dropped', path, at: now, bytes: stat.size_bytes }], put: { row } };
}

function isSynced({ synced }: Look, stat: FileStat): boolean {
  return synced !== undefined && synced.inode === stat.inode && synced.size_bytes === stat.size_bytes;
}

function announcement({ path, from, at, by, openedAt }: Close, bytes: number): Announcement {
  return { path, from, at, by, openedAt, bytes };
}

function renamedEvent(look: Look, { from, at, by }: Rename, bytes: number): Event {
  return { event: 'renamed', path: look.path, from, at, by, bytes };
}

function newRow(
  stat: FileStat,
  close: Close,
  { state, pid = null }: { state: FileState; pid?: number | null },
): NewRow {
  return { ...stat, state, uploaded_at: close.at, source: 'log', session_pid: pid };
}
