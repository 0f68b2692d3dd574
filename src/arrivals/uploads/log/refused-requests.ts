/**
 * Finds the requests that sshd has refused, with the reason as far as the disk shows it. `berth explain` shows them. Refusals that are
 * part of a client's usual work are left out: it asks for files that are not there, or makes folders that are.
 */
import type { Stats } from 'node:fs';
import { type Micros, SECOND } from '../../../foundation/base/clock.ts';
import { type FilePath, filePath, parentOf } from '../file-path.ts';
import { type LogEvent, unvis } from './log-line.ts';

/** How many refused requests of a process are kept in an hour. What a client repeats says nothing new. */
const MOST = 5;
const WINDOW: Micros = 3600 * SECOND;

/** The longest name of a file, in bytes, and how much of a name sshd shows when a write fails (`"%.100s"` in sftp-server.c). */
const LONGEST_NAME = 255;
const NAME_SHOWN = 100;
const CUT_OFF = '...';

export interface RefusedRequest {
  /** As a `FilePath`, or with a leading slash for a path outside of `/files`. Missing where sshd logs no name. */
  readonly path?: string;
  /** The path before a rename. */
  readonly from?: string | undefined;
  /** What was not done, sshd's answer, and why. `operating/reports/refused-requests.ts` knows the remedies by the last part. */
  readonly reason: string;
}

/** The status of what is at a path, '' for `files/` itself. Undefined where there is nothing, or the kernel cannot be asked. */
export type StatusOf = (path: FilePath) => Pick<Stats, 'uid' | 'gid' | 'mode' | 'isDirectory'> | undefined;

interface Line {
  readonly at: Micros;
  readonly text: string;
  readonly event: LogEvent;
}

/** What a client wanted, as a past participle, and the names in its request. */
interface Request {
  readonly wish: 'done' | 'written' | 'read' | 'listed' | 'created' | 'removed' | 'renamed' | 'changed';
  readonly names: readonly string[];
  /** Marks a name that the log has cut off. */
  readonly end?: string;
}

/** The refused requests of one process. */
export class RefusedRequests {
  #last: Line | undefined;
  readonly #kept = new Set<string>();
  #since: Micros = 0;

  /** Reads the process's next line. Returns the request that it refuses, unless that says nothing new. */
  read(line: Line, statusOf: StatusOf): RefusedRequest | undefined {
    const { event, text, at } = line;
    const last = this.#last;
    this.#last = line;
    if (event.kind === 'write-refused') return this.#ifNew(text, at, () => failedWrite(event.name, text));
    if (event.kind !== 'status' || !last) return undefined;
    return this.#ifNew(last.text, at, () => refused(last, event.text, statusOf));
  }

  #ifNew(text: string, at: Micros, find: () => RefusedRequest | undefined): RefusedRequest | undefined {
    if (Math.abs(at - this.#since) >= WINDOW) {
      this.#kept.clear();
      this.#since = at;
    }
    if (this.#kept.size >= MOST || this.#kept.has(text)) return undefined;
    const found = find();
    if (found) this.#kept.add(text);
    return found;
  }
}

/** sshd logs why a write has failed before it refuses it. */
function failedWrite(name: string, text: string): RefusedRequest {
  const path = shown(name) + (name.length < NAME_SHOWN ? '' : CUT_OFF);
  const error = text.slice(text.lastIndexOf('": ') + 3);
  return { path, reason: `not written (Failure): ${WRITE_ERRORS[error] ?? error}` };
}

const WRITE_ERRORS: Readonly<Record<string, string>> = {
  'Disk quota exceeded': 'the quota is used up',
  'No space left on device': 'the disk is full',
};

function refused(line: Line, status: string, statusOf: StatusOf): RefusedRequest | undefined {
  const isDenied = status === 'Permission denied';
  const kind = /^Refusing denylisted ([a-z-]+) request$/.exec(line.text)?.[1];
  if (kind !== undefined && isDenied)
    return { reason: `not done (${status}): ${kind.endsWith('link') ? 'links are' : `${kind} is`} not allowed` };
  const request = requestIn(line);
  const why = request && whyRefused(request, status, statusOf);
  if (!request || (why === undefined && !isDenied)) return undefined;
  const { wish, names, end = '' } = request;
  const [path = '', from] = names.map(shown).toReversed();
  return { path: path + end, from, reason: `not ${wish} (${status})${why === undefined ? '' : `: ${why}`}` };
}

/** The request that a line logs; undefined if it names no path. */
function requestIn({ event, text }: Line): Request | undefined {
  if (event.kind === 'open') {
    const isWriting = event.flags.includes('WRITE') || event.flags.includes('APPEND');
    return { wish: isWriting ? 'written' : 'read', names: [event.name] };
  }
  if (event.kind === 'rename') return { wish: 'renamed', names: [event.from, event.to] };
  if (event.kind === 'unclear') return { wish: 'done', names: [event.start], end: CUT_OFF };
  const [, verb = '', name] = NAMING.exec(text) ?? [];
  const wish = WISHES[verb];
  return wish === undefined || name === undefined ? undefined : { wish, names: [unvis(name)] };
}

const NAMING = /^(mkdir|rmdir|remove|opendir|set|l?stat|readlink|statvfs)(?: name)? "(.*)"(?: .*)?$/;

const WISHES: Readonly<Record<string, Request['wish']>> = {
  mkdir: 'created',
  rmdir: 'removed',
  remove: 'removed',
  opendir: 'listed',
  set: 'changed',
  stat: 'read',
  lstat: 'read',
  readlink: 'read',
  statvfs: 'read',
};

/** The path as berth shows it. */
function shown(name: string): string {
  return filePath(name) ?? (name.startsWith('/') ? name : `/files/${name}`);
}

function whyRefused({ wish, names, end }: Request, status: string, statusOf: StatusOf): string | undefined {
  const inside = names.map(filePath).filter((path) => path !== undefined);
  const isWrite = wish === 'written';
  switch (status) {
    case 'Permission denied':
      if (inside.length < names.length) return 'only what is in /files can be changed';
      return end === undefined ? firstOf(inside, (path) => obstacleTo(wish, path, statusOf)) : undefined;
    case 'No such file':
      return firstOf(inside, (path) =>
        isWrite && !statusOf(parentOf(path))?.isDirectory() ? 'its folder does not exist' : undefined,
      );
    case 'Bad message':
      return firstOf(names, (name) =>
        name.split('/').some((part) => part.length > LONGEST_NAME)
          ? `a name has over ${LONGEST_NAME} bytes`
          : undefined,
      );
    case 'Failure':
      return firstOf(inside, (path) =>
        isWrite && statusOf(path)?.isDirectory() ? 'a folder has this name' : undefined,
      );
    default:
      return undefined;
  }
}

function firstOf(names: readonly string[], why: (name: string) => string | undefined): string | undefined {
  for (const name of names) {
    const found = why(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Bits of a mode (inode(7)), and what only the owner may do. */
const READ = 4;
const WRITE = 2;
const SEARCH = 1;
const OWNED = 0;

/** What on the way to a path, or at it, forbids the directory's user what they want. */
function obstacleTo(wish: Request['wish'], path: FilePath, statusOf: StatusOf): string | undefined {
  const user = statusOf('');
  const forbids = (at: FilePath, what: string, bits: number): string | undefined => {
    const stats = statusOf(at);
    if (!user || !stats) return undefined;
    const { uid, gid, mode } = stats;
    if (uid === user.uid)
      return ((mode >> 6) & bits) === bits ? undefined : `${what} has the mode 0${(mode & 0o777).toString(8)}`;
    const isAllowed = bits !== OWNED && ((gid === user.gid ? mode >> 3 : mode) & bits) === bits;
    return isAllowed ? undefined : `${what} belongs to ${uid === 0 ? 'root' : `UID ${uid}`}`;
  };
  const folder = parentOf(path);
  for (let at = folder; at !== '';) {
    at = parentOf(at);
    const why = forbids(at, 'a folder above it', SEARCH);
    if (why !== undefined) return why;
  }
  const isInFolder = wish === 'created' || wish === 'removed' || wish === 'renamed';
  const inFolder = forbids(folder, 'its folder', isInFolder ? WRITE | SEARCH : SEARCH);
  if (isInFolder || inFolder !== undefined) return inFolder;
  if (wish === 'written') return statusOf(path) ? forbids(path, 'it', WRITE) : forbids(folder, 'its folder', WRITE);
  return forbids(path, 'it', wish === 'changed' ? OWNED : READ);
}
