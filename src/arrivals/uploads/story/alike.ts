/** What of a session may be meant by a name that sshd's log has cut off. */
import { beginsLike, type FilePath, folderOf } from '../file-path.ts';
import type { HeldPath } from '../processes.ts';
import type { CutOffClose, CutOffOpen, Handle, Session } from './sessions.ts';

/** What the process held when a line was read, of the files that its name may mean. */
export function noteHeld(session: Session, start: string, held: readonly HeldPath[]): void {
  session.held = [...session.held.filter(({ path }) => !beginsLike(path, start)), ...held];
}

/** The files that belong to no known handle. The second of two handles of one file is there twice. */
export function untracked(session: Session, held: readonly HeldPath[]): HeldPath[] {
  const handles = session.all().filter(({ file }) => file);
  const tracked = Map.groupBy(handles, ({ inode }) => inode);
  const files = [...Map.groupBy(held, ({ inode }) => inode)];
  return files.flatMap(([inode, same]) => same.slice(tracked.get(inode)?.length ?? 0));
}

/** The session's handles of files that a name with this beginning may mean. */
export function namedLike(session: Session, start: string): Handle[] {
  return session.all().filter(({ file, path }) => file && beginsLike(path, start));
}

/** The session's closes that wait and may be of a handle that a name with this beginning means. */
export function parkedLike(session: Session, start: string): CutOffClose[] {
  return session.parked.filter((each) => isOfOne(each.start, start));
}

/** An open that may be that of the close, and of which the kernel has not shown a file. */
export function cutLike(session: Session, { start }: Pick<CutOffClose, 'start'>): CutOffOpen | undefined {
  return [...session.cutOff].find((each) => isOfOne(each.start, start));
}

/** The path of a file when it was opened. */
export function openedAs({ start, movedTo }: CutOffOpen, path: FilePath): FilePath {
  return movedTo === undefined ? path : (folderOf(start) ?? '') + path.slice(movedTo.length);
}

/** Whether the log may have cut two beginnings off one name. A beginning may have the whole name, and wording after it. */
export function isOfOne(a: string, b: string): boolean {
  const [one, other] = [wholeName(a), wholeName(b)];
  if (one !== undefined && other !== undefined) return one === other;
  if (one !== undefined) return one.startsWith(b) || b.startsWith(`${one}"`);
  if (other !== undefined) return other.startsWith(a) || a.startsWith(`${other}"`);
  return a.startsWith(b) || b.startsWith(a);
}

/** The name that the log has followed by its own wording, `" flags` or `" bytes`; undefined if the name was cut off. */
function wholeName(start: string): string | undefined {
  return /^(.*)"(?: (?:[fb][^"]*)?)?$/s.exec(start)?.[1];
}
