/**
 * Finds the requests that sshd has refused, with the reason as far as the disk shows it. `berth explain` shows them. Refusals that are
 * part of a client's usual work are left out: it asks for files that are not there, or makes folders that are.
 */
import type { Stats } from 'node:fs';
import { type Micros, SECOND } from '../../../foundation/base/clock.ts';
import { LONGEST_NAME, type Refusal, type Where, type Why } from '../../../rules/history/refusals.ts';
import { type FilePath, filePath, parentOf } from '../file-path.ts';
import { type LogEvent, unvis } from './log-line.ts';

/** How many refused requests of a process are kept in an hour. What a client repeats says nothing new. */
const MOST = 5;
const WINDOW: Micros = 3600 * SECOND;

/** How much of a name sshd shows when a write fails (`"%.100s"` in sftp-server.c). */
const NAME_SHOWN = 100;
const CUT_OFF = '...';

export interface RefusedRequest {
  /** As a `FilePath`, or with a leading slash for a path outside of `/files`. Missing where sshd logs no name. */
  readonly path?: string;
  /** The path before a rename. */
  readonly from?: string | undefined;
  /** A `Refusal` as JSON. */
  readonly reason: string;
}

/** The status of what is at a path, '' for `files/` itself. Undefined where there is nothing, or the kernel cannot be asked. */
export type StatusOf = (path: FilePath) => Pick<Stats, 'uid' | 'gid' | 'mode' | 'isDirectory'> | undefined;

interface Line {
  readonly at: Micros;
  readonly text: string;
  readonly event: LogEvent;
}

/** What a client wanted, and the names in its request. */
interface Request {
  readonly wish: Refusal['wish'];
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
  const path = displayPath(name) + (name.length < NAME_SHOWN ? '' : CUT_OFF);
  const error = text.slice(text.lastIndexOf('": ') + 3);
  const code = WRITE_ERRORS[error];
  return {
    path,
    reason: reasonOf({ wish: 'write', status: 'Failure', why: code ? { code } : { code: 'error', text: error } }),
  };
}

const WRITE_ERRORS: Readonly<Record<string, 'no-quota' | 'no-space'>> = {
  'Disk quota exceeded': 'no-quota',
  'No space left on device': 'no-space',
};

const reasonOf = (refusal: Refusal): string => JSON.stringify(refusal);

function refused(line: Line, status: string, statusOf: StatusOf): RefusedRequest | undefined {
  const isDenied = status === 'Permission denied';
  const kind = /^Refusing denylisted ([a-z-]+) request$/.exec(line.text)?.[1];
  if (kind !== undefined && isDenied)
    return { reason: reasonOf({ wish: 'request', status, why: { code: 'forbidden', request: kind } }) };
  const request = requestIn(line);
  const why = request && whyRefused(request, status, statusOf);
  if (!request || (why === undefined && !isDenied)) return undefined;
  const { wish, names, end = '' } = request;
  const [path = '', from] = names.map(displayPath).toReversed();
  return { path: path + end, from, reason: reasonOf({ wish, status, why }) };
}

/** The request that a line logs; undefined if it names no path. */
function requestIn({ event, text }: Line): Request | undefined {
  if (event.kind === 'open') {
    const isWriting = event.flags.includes('WRITE') || event.flags.includes('APPEND');
    return { wish: isWriting ? 'write' : 'read', names: [event.name] };
  }
  if (event.kind === 'rename') return { wish: 'rename', names: [event.from, event.to] };
  if (event.kind === 'unclear') return { wish: 'request', names: [event.start], end: CUT_OFF };
  const [, verb = '', name] = NAMING.exec(text) ?? [];
  const wish = WISHES[verb];
  return wish === undefined || name === undefined ? undefined : { wish, names: [unvis(name)] };
}

const NAMING = /^(mkdir|rmdir|remove|opendir|set|l?stat|readlink|statvfs)(?: name)? "(.*)"(?: .*)?$/;

const WISHES: Readonly<Record<string, Request['wish']>> = {
  mkdir: 'create',
  rmdir: 'delete',
  remove: 'delete',
  opendir: 'list',
  set: 'change',
  stat: 'read',
  lstat: 'read',
  readlink: 'read',
  statvfs: 'read',
};

/** The path as berth shows it. */
function displayPath(name: string): string {
  return filePath(name) ?? (name.startsWith('/') ? name : `/files/${name}`);
}

function whyRefused({ wish, names, end }: Request, status: string, statusOf: StatusOf): Why | undefined {
  const inside = names.map(filePath).filter((path) => path !== undefined);
  const isWrite = wish === 'write';
  switch (status) {
    case 'Permission denied':
      if (inside.length < names.length) return { code: 'outside' };
      return end === undefined ? firstOf(inside, (path) => obstacleTo(wish, path, statusOf)) : undefined;
    case 'No such file':
      return firstOf(inside, (path) =>
        isWrite && !statusOf(parentOf(path))?.isDirectory() ? { code: 'no-folder' } : undefined,
      );
    case 'Bad message':
      return firstOf(names, (name) =>
        name.split('/').some((part) => part.length > LONGEST_NAME) ? { code: 'long-name' } : undefined,
      );
    case 'Failure':
      return firstOf(inside, (path) => (isWrite && statusOf(path)?.isDirectory() ? { code: 'is-folder' } : undefined));
    default:
      return undefined;
  }
}

function firstOf(names: readonly string[], why: (name: string) => Why | undefined): Why | undefined {
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
function obstacleTo(wish: Request['wish'], path: FilePath, statusOf: StatusOf): Why | undefined {
  const user = statusOf('');
  const forbids = (at: FilePath, where: Where, bits: number): Why | undefined => {
    const stats = statusOf(at);
    if (!user || !stats) return undefined;
    const { uid, gid, mode } = stats;
    if (uid === user.uid)
      return ((mode >> 6) & bits) === bits
        ? undefined
        : { code: 'mode', where, mode: `0${(mode & 0o777).toString(8)}` };
    const isAllowed = bits !== OWNED && ((gid === user.gid ? mode >> 3 : mode) & bits) === bits;
    return isAllowed ? undefined : { code: 'owner', where, uid };
  };
  const folder = parentOf(path);
  for (let at = folder; at !== '';) {
    at = parentOf(at);
    const why = forbids(at, 'above', SEARCH);
    if (why !== undefined) return why;
  }
  const isInFolder = wish === 'create' || wish === 'delete' || wish === 'rename';
  const inFolder = forbids(folder, 'folder', isInFolder ? WRITE | SEARCH : SEARCH);
  if (isInFolder || inFolder !== undefined) return inFolder;
  if (wish === 'write') return statusOf(path) ? forbids(path, 'itself', WRITE) : forbids(folder, 'folder', WRITE);
  return forbids(path, 'itself', wish === 'change' ? OWNED : READ);
}
