/**
 * Reads paths from a request exactly as they were sent. A URL parser would resolve `..` and turn `\` into `/`, which may be
 * part of a name, or an attack.
 */
import type { IncomingMessage } from 'node:http';
import { wrongField } from '../../foundation/base/errors.ts';
import type { FilePath } from '../../arrivals/uploads/file-path.ts';

/** The kernel's limits (path_resolution(7)) as they apply to sessions, whose paths begin with `/files/` and end in a zero byte. */
const NAME_BYTES = 255;
const PATH_BYTES = 4096 - '/files/'.length - 1;
/** As deep as scans look (uploads/disk/scan.ts). */
const DEPTH = 400;

/**
 * The path of the requested file.
 * @param target from the request line.
 * @throws {ValidationError} when no file can have that path, or two readers may take it for different ones.
 */
export function requestedPath(target: string, prefix: string): FilePath {
  const [path = ''] = target.replace(/^https?:\/\/[^/]*/i, '').split('?', 1);
  if (!path.startsWith(prefix)) throw wrongField('path', 'invalid');
  // Generated clients send the whole path as one parameter, with each slash in it encoded.
  const components = path
    .slice(prefix.length)
    .split(/\/|%2f/i)
    .map(decoded);
  if (components.length > DEPTH) throw wrongField('path', 'too_many', DEPTH, 'folder');
  if (components.some((name) => name.length > NAME_BYTES)) {
    throw wrongField('path', 'long_name', NAME_BYTES);
  }
  const whole = components.join('/');
  if (whole.length > PATH_BYTES) throw wrongField('path', 'too_long', PATH_BYTES, 'byte');
  return whole;
}

/** Each character of the result is one byte. */
function decoded(component: string): string {
  const name = component.replaceAll(/%([\da-f]{2})/gi, (_, byte: string) =>
    String.fromCharCode(Number.parseInt(byte, 16)),
  );
  // A literal `%` has to be written as %25.
  const isEscaped = !/%(?![\da-f]{2})/i.test(component);
  if (!isEscaped || name === '' || name === '.' || name === '..' || name.includes('\0'))
    throw wrongField('path', 'invalid');
  return name;
}

/**
 * The path of a request. `..` is not resolved, since that would bypass a proxy that checks how paths begin:
 * `/open/../api/v1/directories` is not a path of berth.
 * @param request its URL may be in absolute form (RFC 9112, section 3.2.2).
 */
export function rawPath({ url = '/' }: Pick<IncomingMessage, 'url'>): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?]*/i, '').split('?', 1);
  return path === '' ? '/' : path;
}
