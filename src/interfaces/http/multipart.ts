/**
 * Reads the one file in a form (RFC 7578) while it arrives. Text fields before the file are skipped, and anything after the
 * file is ignored.
 */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy, type BusboyInstance } from '@fastify/busboy';
import { BerthError } from '../../foundation/base/errors.ts';
import { receivedBytes } from '../web/received-bytes.ts';

/** How many bytes a form may have before its file. */
const MOST_BEFORE = 16_384;
const LIMITS = { headerPairs: 100, headerSize: 8192, fieldSize: 1024 };

const BOUNDARY = /;.*?\bboundary=(?:"[^"\r\n]{1,70}"|[^\s;"]{1,70})/i;

export function isForm(type = ''): boolean {
  return /^\s*multipart\/form-data\b/i.test(type);
}

export interface BodyFile {
  /** The name in the form, without folders; undefined for a body that is the file itself, and for a file that has no name there. */
  readonly name: string | undefined;
  /** Throws {BerthError} `incomplete_body` for a body that ends too early. */
  readonly content: AsyncIterable<Buffer>;
  /** Call it when the content is not read to its end. */
  close(): void;
}

/**
 * The file in a request's body: the body itself or, since some clients send forms to every URL, the file in its form.
 * @throws {BerthError} as `fileInForm` does.
 */
export async function fileInBody(incoming: IncomingMessage): Promise<BodyFile> {
  const { 'content-type': type = '' } = incoming.headers;
  const received = receivedBytes(incoming);
  return isForm(type) ? fileInForm(received, type) : { name: undefined, content: received, close: () => undefined };
}

/**
 * @param type the body's `Content-Type`, for which `isForm` holds.
 * @throws {BerthError} `incomplete_body` for a body that ends too early, or has no file; `unsupported_media_type`.
 */
export async function fileInForm(body: AsyncIterable<Buffer>, type: string): Promise<BodyFile> {
  const found = Promise.withResolvers<{ readonly name: string | undefined; readonly stream: Readable }>();
  let file: Readable | undefined;
  const parser = parserOf(type);
  parser.once('file', (_field, stream, name: string | undefined) => {
    file = stream;
    // Its errors are those of the parser, too.
    file.on('error', () => undefined);
    if (name === '') found.reject(new BerthError('incomplete_body', 'Choose a file first.'));
    // Browsers escape a quote, which would end the name (HTML, "Multipart form data").
    else found.resolve({ name: name?.replaceAll('%22', '"'), stream });
  });
  parser.on('file', (_field, stream) => stream !== file && stream.resume());
  const source = Readable.from(boundedBefore(body, () => file !== undefined));
  const fail = (error: Error): void => {
    found.reject(error);
    file?.destroy(error);
  };
  pipeline(source, parser).then(() => found.reject(broken()), fail);
  const close = (): void => {
    source.destroy();
    parser.destroy();
  };
  try {
    const { name, stream } = await found.promise;
    return { name, content: contentOf(stream, close), close };
  } catch (error) {
    close();
    throw known(error);
  }
}

/** @throws {BerthError} `unsupported_media_type` without a boundary, or if Busboy finds none, for example in `x-boundary=…`. */
function parserOf(type: string): BusboyInstance {
  const refusal =
    'The Content-Type of the form has no boundary. Send the file itself, or let your client set Content-Type';
  if (!BOUNDARY.test(type)) throw new BerthError('unsupported_media_type', refusal);
  try {
    return new Busboy({ headers: { 'content-type': type }, limits: LIMITS });
  } catch (error) {
    throw new BerthError('unsupported_media_type', refusal, { cause: error });
  }
}

async function* contentOf(stream: Readable, close: () => void): AsyncGenerator<Buffer, void, void> {
  try {
    yield* stream;
  } catch (error) {
    throw known(error);
  } finally {
    close();
  }
}

function known(error: unknown): BerthError {
  return error instanceof BerthError ? error : broken(error);
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
