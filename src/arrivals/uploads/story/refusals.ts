/** Which requests sshd has refused for certain, by what the disk shows. */
import type { Observation } from '../log/journal-record.ts';
import { BUSY_LAG, RESTART_LAG } from '../record/file-stat.ts';
import type { File, Handle, LastRequest, Session } from './sessions.ts';

/**
 * Whether the disk shows that the session's last request was refused, so the refusal answers no other: what was at one of its
 * paths before the request is there still. The request may be a little older than its line.
 */
export function isRefusalOf(
  lastRequest: LastRequest | undefined,
  after: readonly (Observation | null)[] = [],
): boolean {
  if (lastRequest?.kind === 'refused') return true;
  if (lastRequest?.kind === 'open') return wasThere(lastRequest.handle, after);
  if (lastRequest?.kind !== 'change') return false;
  return after.some((there) => there && (there.sinceMs ?? Infinity) * 1000 < lastRequest.at - BUSY_LAG);
}

/**
 * A handle by which the session has the file open already. If the log has cut off a rename since that handle was opened, it may have
 * been of its file, and the handle proves nothing.
 * @param own a handle that does not count.
 */
export function otherOf(session: Session, file: File | undefined, own?: Handle): Handle | undefined {
  const { lostNameAt = -Infinity } = session;
  return [...(file?.writers ?? [])].find(
    (each) => each !== own && each.session === session && (each.openedAt ?? 0) > lostNameAt,
  );
}

/**
 * Whether an exclusive open was refused for certain: it succeeds only if it makes the file, and what is there is older, or is what an
 * earlier handle has written.
 */
function wasThere(handle: Handle, after: readonly (Observation | null)[]): boolean {
  const { file, isExclusive, openedAt, session } = handle;
  if (!isExclusive || openedAt === undefined) return false;
  const ends = (file?.puts ?? []).map(({ end }) => end);
  const others = [...(file?.writers ?? [])].filter((other) => other !== handle);
  const earlier = [...ends, ...others];
  return after.some((there) => {
    if (!there) return false;
    const { ino, birthtimeMs = 0 } = there;
    if (birthtimeMs > 0 && birthtimeMs * 1000 < openedAt - RESTART_LAG) return true;
    // The file of an upload was not seen, but the log says that it is there.
    if (
      session.lostNameAt === undefined &&
      ends.some(({ inode, at }) => inode === undefined && birthtimeMs * 1000 < at)
    )
      return true;
    return earlier.some(({ inode, bornMs = birthtimeMs }) => inode === ino && bornMs === birthtimeMs);
  });
}
