/**
 * Paths of files below `files/`, without a leading slash. Names are bytes and not always UTF-8, so a path is a string
 * with one character a byte (Latin-1).
 */
import { join } from 'node:path';

export type FilePath = string;

const ROOT = 'files';

/**
 * The path that a name in a client's request refers to. Undefined when it is not below `/files` (`/dev/log`, or
 * `/files` itself). Sessions start in `/files`, and a jail has no links, so `..` can be resolved in the text.
 */
export function filePath(name: string): FilePath | undefined {
  const parts: string[] = name.startsWith('/') ? [] : [ROOT];
  for (const part of name.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') parts.pop();
    else parts.push(part);
  }
  if (parts[0] !== ROOT || parts.length < 2) return undefined;
  return parts.slice(1).join('/');
}

export function bytesOf(path: FilePath): Buffer {
  return Buffer.from(path, 'latin1');
}

export function pathOf(bytes: Buffer): FilePath {
  return bytes.toString('latin1');
}

/** The last component. */
export function baseName(path: FilePath): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The folder of a path, '' for `files/` itself. */
export function parentOf(path: FilePath): FilePath {
  return path.slice(0, Math.max(path.lastIndexOf('/'), 0));
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** The path as people read it: bytes that are not UTF-8 become U+FFFD. */
export function displayName(path: FilePath | Buffer): string {
  return utf8.decode(typeof path === 'string' ? bytesOf(path) : path);
}

export type IsTemporary = (path: FilePath) => boolean;

/**
 * Recognizes the temporary names that clients give to uploads, or to the folders that they fill, before they rename them. Patterns
 * are as in `BERTH_TEMP_NAMES` (`*.filepart`, `.*`, …), where `*` stands for any bytes and `?` for one. A folder's name counts as
 * its files'.
 */
export function temporaryNames(patterns: readonly string[]): IsTemporary {
  const isTemporary = namesLike(patterns);
  return (path) => path.split('/').some(isTemporary);
}

/** Recognizes uploads by the last component of their paths (`BERTH_UNANNOUNCED_NAMES`). */
export function unannouncedNames(patterns: readonly string[]): (path: FilePath) => boolean {
  const isUnannounced = namesLike(patterns);
  return (path) => isUnannounced(baseName(path));
}

function namesLike(patterns: readonly string[]): (name: string) => boolean {
  if (patterns.length === 0) return () => false;
  const alternatives = patterns.map((pattern) =>
    pattern
      .split(/([*?])/)
      .map((part) => (part === '*' ? '[^]*' : part === '?' ? '[^]' : RegExp.escape(part)))
      .join(''),
  );
  const expression = new RegExp(`^(?:${alternatives.join('|')})$`);
  return (name) => expression.test(name);
}

/** The final name that most clients give to a file with a temporary name: without its suffix. */
export function withoutSuffix(path: FilePath): FilePath {
  return path.replace(/\.[^./]*$/, '');
}

/** The folder that holds an SFTP user's files. */
export type FilesRoot = (username: string) => string;

/** `<jails>/<username>/files`. */
export function jailFiles(jailDir: string): FilesRoot {
  return (username) => join(jailDir, username, ROOT);
}

/** Whether a path may be that of a name that the log has cut off after `start`, or that is followed by the log's wording. */
export function beginsLike(path: FilePath, start: string): boolean {
  const folder = folderOf(start);
  if (folder === undefined || !path.startsWith(folder)) return false;
  // Only the last component may be cut off, or followed by wording of the log.
  const [name = ''] = path.slice(folder.length).split('/', 1);
  const said = baseName(start);
  return name.startsWith(said) || said.startsWith(`${name}"`);
}

/**
 * The folder of a name that the log has cut off after `start`, as the beginning of a path: '' or with a `/` at its end. Folders
 * can be spelled in many ways, so it is normalized.
 */
export function folderOf(start: string): string | undefined {
  const folder = start.slice(0, start.lastIndexOf('/') + 1);
  // Looks ask this for each name that they compare, and most are spelled plainly.
  const isPlain = !folder.startsWith('.') && !folder.includes('//') && !folder.includes('/.');
  if (isPlain && !folder.startsWith('/')) return folder;
  if (isPlain && folder.startsWith(`/${ROOT}/`)) return folder.slice(ROOT.length + 2);
  return filePath(`${folder}x`)?.slice(0, -1);
}
