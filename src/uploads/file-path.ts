/** Names as SFTP clients send them, turned into paths below `files/`. */

const ROOT = 'files';

/**
 * The path below `files/` that a name in a request means, without a leading slash; undefined when it lies elsewhere
 * (`/dev/log`, `/files` itself). Sessions start in `/files`, and no link exists in a jail, so `..` can be resolved
 * as text.
 */
export function filePath(name: Buffer): Buffer | undefined {
  // Latin-1 keeps every byte as one character.
  const text = name.toString('latin1');
  const parts: string[] = text.startsWith('/') ? [] : [ROOT];
  for (const part of text.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') parts.pop();
    else parts.push(part);
  }
  if (parts[0] !== ROOT || parts.length < 2) return undefined;
  return Buffer.from(parts.slice(1).join('/'), 'latin1');
}

/** The last component of a path. */
export function baseName(path: Buffer): Buffer {
  return path.subarray(path.lastIndexOf(0x2f) + 1);
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** The path as text: bytes that are not UTF-8 become U+FFFD. */
export function displayName(path: Buffer): string {
  return utf8.decode(path);
}
