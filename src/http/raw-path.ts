/**
 * The path of a request as it was sent. A URL parser resolves `..` and turns `\` into `/`, so a proxy that judges paths by their
 * beginning could be led round its rules: `/open/../api/v1/directories` is no path of ours.
 */
import type { IncomingMessage } from 'node:http';

/** @param request in absolute form too (RFC 9112, section 3.2.2). */
export function rawPath({ url = '/' }: Pick<IncomingMessage, 'url'>): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?]*/i, '').split('?', 1);
  return path === '' ? '/' : path;
}
