/**
 * Reads the one file in a browser's form (RFC 7578) while it arrives. Only bytes that may be the beginning of the boundary are
 * held back. Anything after the file is ignored.
 */
import { BerthError } from '../base/errors.ts';

/** How large the headers before the file may be. */
const MOST_HEADER_BYTES = 8192;

/** @returns the delimiter of the parts; undefined when the type is not that of a form with files. */
export function boundaryOf(type = ''): string | undefined {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;.*?\bboundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))/i.exec(type) ?? [];
  return quoted ?? plain;
}

/** @throws {BerthError} `incomplete_body` for a body that ends too early, or is not such a form. */
export async function* fileInForm(body: AsyncIterable<Buffer>, boundary: string): AsyncGenerator<Buffer, void, void> {
  const end = Buffer.from(`\r\n--${boundary}`, 'latin1');
  // The first boundary may be at the very beginning, without a line break before it.
  let held = Buffer.from('\r\n');
  let isInFile = false;
  for await (const chunk of body) {
    held = Buffer.concat([held, chunk]);
    if (!isInFile) {
      const start = fileStart(held, end);
      if (start === undefined && held.length > MOST_HEADER_BYTES) throw broken();
      if (start === undefined) continue;
      held = held.subarray(start);
      isInFile = true;
    }
    const at = held.indexOf(end);
    if (at >= 0) {
      if (at > 0) yield held.subarray(0, at);
      return;
    }
    const certain = held.length - end.length + 1;
    if (certain <= 0) continue;
    yield held.subarray(0, certain);
    held = Buffer.from(held.subarray(certain));
  }
  throw broken();
}

/** Where the content of the first part begins; undefined until its headers have arrived. */
function fileStart(held: Buffer, end: Buffer): number | undefined {
  const first = held.indexOf(end);
  // The empty line after the headers; without headers, it is right after the boundary.
  const blank = first < 0 ? -1 : held.indexOf('\r\n\r\n', first + end.length);
  if (blank < 0) return undefined;
  const headers = held.toString('latin1', first + end.length, blank);
  if (!/^\r\ncontent-disposition:[^\r\n]*\bfilename="/im.test(headers)) throw broken();
  if (/\bfilename=""/i.test(headers)) throw new BerthError('incomplete_body', 'Choose a file first.');
  return blank + 4;
}

function broken(): BerthError {
  return new BerthError('incomplete_body', 'The form is incomplete. Try again.');
}
