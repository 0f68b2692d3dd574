/**
 * Paths as a request was sent, byte for byte: a URL parser would resolve `..` and turn `\` into `/`, and each may be meant as it
 * is, or be an attempt.
 */
import type { IncomingMessage } from 'node:http';
import { ValidationError } from '../base/errors.ts';
import type { FilePath } from '../uploads/file-path.ts';

/** The kernel's limits (path_resolution(7)), as sessions see them: below `/files/`, with a zero byte at the end. */
const NAME_BYTES = 255;
const PATH_BYTES = 4096 - '/files/'.length - 1;
/** As deep as scans look (uploads/disk/scan.ts). */
const DEPTH = 400;

/**
 * The path of a file.
 * @param target the request line's.
 * @throws {ValidationError} when no file can have that path, or two readers may take it for different ones.
 */
export function requestedPath(target: string, prefix: string): FilePath {
  const [path = ''] = target.replace(/^https?:\/\/[^/]*/i, '').split('?', 1);
  if (!path.startsWith(prefix)) throw invalid('is invalid');
  // Generated clients send the whole path as one parameter, with each slash in it encoded.
  const components = path
    .slice(prefix.length)
    .split(/\/|%2f/i)
    .map(decoded);
  if (components.length > DEPTH) throw invalid(`should have at most ${DEPTH} folder(s)`);
  if (components.some((name) => name.length > NAME_BYTES)) {
    throw invalid(`should have names of at most ${NAME_BYTES} byte(s)`);
  }
  const whole = components.join('/');
  if (whole.length > PATH_BYTES) throw invalid(`should be at most ${PATH_BYTES} byte(s)`);
  return whole;
}

/** One character a byte. */
function decoded(component: string): string {
  const name = component.replaceAll(/%([\da-f]{2})/gi, (_, byte: string) =>
    String.fromCharCode(Number.parseInt(byte, 16)),
  );
  // A `%` that stands for itself has to be written as %25.
  const isEscaped = !/%(?![\da-f]{2})/i.test(component);
  if (!isEscaped || name === '' || name === '.' || name === '..' || name.includes('\0')) throw invalid('is invalid');
  return name;
}

function invalid(reason: string): ValidationError {
  return new ValidationError({ path: [reason] });
}

/**
 * The path of a request. With `..` resolved, a proxy that judges paths by their beginning could be bypassed:
 * `/open/../api/v1/directories` is no path of ours.
 * @param request in absolute form too (RFC 9112, section 3.2.2).
 */
export function rawPath({ url = '/' }: Pick<IncomingMessage, 'url'>): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?]*/i, '').split('?', 1);
  return path === '' ? '/' : path;
}
