/**
 * Reads the one file in a form (RFC 7578) while it arrives. Text fields before the file are skipped, and anything after the
 * file is ignored.
 */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { BerthError } from '../base/errors.ts';

/** How many bytes a form may have before its file. */
const MOST_BEFORE = 16_384;
const LIMITS = { headerPairs: 100, headerSize: 8192, fieldSize: 1024 };

export function isForm(type = ''): boolean {
  return /^multipart\/form-data\s*;.*?\bboundary=(?:"[^"\r\n]{1,70}"|[^\s;"]{1,70})/i.test(type);
}

/**
 * @param type the body's `Content-Type`, for which `isForm` holds.
 * @throws {BerthError} `incomplete_body` for a body that ends too early, or has no file.
 */
export async function* fileInForm(body: AsyncIterable<Buffer>, type: string): AsyncGenerator<Buffer, void, void> {
  const found = Promise.withResolvers<Readable>();
  let file: Readable | undefined;
  const parser = new Busboy({ headers: { 'content-type': type }, limits: LIMITS });
  parser.once('file', (_field, stream, name) => {
    file = stream;
    // Its errors are those of the parser, too.
    file.on('error', () => undefined);
    if (name === '') found.reject(new BerthError('incomplete_body', 'Choose a file first.'));
    else found.resolve(file);
  });
  parser.on('file', (_field, stream) => stream !== file && stream.resume());
  const source = Readable.from(boundedBefore(body, () => file !== undefined));
  const fail = (error: Error): void => {
    found.reject(error);
    file?.destroy(error);
  };
  pipeline(source, parser).then(() => found.reject(broken()), fail);
  try {
    yield* await found.promise;
  } catch (error) {
    throw error instanceof BerthError ? error : broken(error);
  } finally {
    source.destroy();
    parser.destroy();
  }
}

/** Passes a body on. @throws {BerthError} `incomplete_body` when too much of it comes before the file. */
async function* boundedBefore(body: AsyncIterable<Buffer>, isFound: () => boolean): AsyncGenerator<Buffer, void, void> {
  let before = 0;
  for await (const chunk of body) {
    if (!isFound() && before > MOST_BEFORE) throw broken();
    before += chunk.length;
    yield chunk;
  }
}

function broken(cause?: unknown): BerthError {
  return new BerthError('incomplete_body', 'The form is incomplete. Try again.', { cause });
}
