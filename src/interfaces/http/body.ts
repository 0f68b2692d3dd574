/** Reads a request's body: JSON of at most 64 KiB, counted while it arrives. */
import type { IncomingMessage } from 'node:http';
import type { Fields } from '../../rules/directories/fields.ts';
import { isExactNumber, parseJson, withWholeNumbers } from '../../rules/directories/json-text.ts';
import { BerthError, wrongField } from '../../foundation/base/errors.ts';

const LIMIT_BYTES = 65_536;
const JSON_TYPE = /^application\/json\s*(;|$)/i;
const OTHER_CHARSET = /;\s*charset\s*=\s*(?!"?utf-?8"?\s*(;|$))/i;

/** The body of a request that creates or changes a directory (specification, POST and PATCH). */
interface DirectoryFields {
  /** The object `directory` in the body. */
  readonly fields: Fields;
  /** The names of the body's other members, which have no effect. */
  readonly beside: readonly string[];
}

/**
 * The fields in the body's `directory`.
 * @throws {BerthError} `unsupported_media_type`, `body_too_large`, `incomplete_body`, `malformed_json`;
 * {ValidationError} when the body is JSON without such an object.
 */
export async function readDirectoryFields(incoming: IncomingMessage): Promise<DirectoryFields> {
  const body = await readJson(incoming);
  const { directory: fields, ...beside } = isObject(body) ? body : {};
  if (fields === undefined || fields === null) throw wrongField('directory', 'blank');
  if (!isObject(fields)) throw wrongField('directory', 'invalid');
  return { fields: withWholeNumbers(fields), beside: Object.keys(beside) };
}

/**
 * The fields of a body that has them directly.
 * @param isOptional whether the body may be missing.
 * @throws {BerthError} like `readDirectoryFields`; {ValidationError} when the body is not an object.
 */
export async function readFields(incoming: IncomingMessage, { isOptional = false } = {}): Promise<Fields> {
  if (isOptional && incoming.headers['content-type'] === undefined && (await readBody(incoming)).length === 0)
    return {};
  const body = await readJson(incoming);
  if (!isObject(body)) throw wrongField('body', 'invalid');
  return withWholeNumbers(body);
}

async function readJson(incoming: IncomingMessage): Promise<unknown> {
  checkType(incoming);
  return parse(await readBody(incoming));
}

function checkType({ headers }: IncomingMessage): void {
  const type = headers['content-type'] ?? '';
  if (!JSON_TYPE.test(type) || OTHER_CHARSET.test(type)) {
    throw new BerthError('unsupported_media_type', 'Content-Type must be application/json');
  }
  if (!/^(identity)?$/i.test(headers['content-encoding'] ?? '')) {
    throw new BerthError('unsupported_media_type', 'Content-Encoding is not supported');
  }
}

/** The bodies that are or were read. A body can be read only once, and several callers may need it. */
const bodies = new WeakMap<IncomingMessage, Promise<Buffer>>();

/**
 * The bytes of the body.
 * @throws {BerthError} `body_too_large`, `incomplete_body`.
 */
export function readBody(incoming: IncomingMessage): Promise<Buffer> {
  const body = bodies.get(incoming) ?? readBounded(incoming);
  bodies.set(incoming, body);
  return body;
}

/** Reads by events, since an iterator takes twice as long for a body that arrives in chunks of one byte. */
async function readBounded(incoming: IncomingMessage): Promise<Buffer> {
  const tooLarge = new BerthError('body_too_large', `Request body is over ${LIMIT_BYTES} bytes`);
  if (Number(incoming.headers['content-length'] ?? 0) > LIMIT_BYTES) throw tooLarge;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let size = 0;
  const keep = (chunk: Buffer): void => {
    size += chunk.length;
    chunks.push(chunk);
    // The connection stays open, so that the client gets the response.
    if (size > LIMIT_BYTES) reject(tooLarge);
  };
  const isWhole = (): void => resolve(Buffer.concat(chunks, size));
  // The client disconnected or was cut off, so nobody reads the response.
  const isCut = (cause: unknown): void =>
    reject(new BerthError('incomplete_body', 'Request body is incomplete', { cause }));
  incoming.on('data', keep).once('end', isWhole).once('error', isCut).once('close', isCut);
  if (incoming.destroyed) isCut(incoming.errored);
  try {
    return await promise;
  } finally {
    incoming.off('data', keep).off('end', isWhole);
  }
}

function parse(body: Buffer): unknown {
  try {
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (error) {
    const problem = error instanceof RangeError ? 'nested too deeply' : 'not valid JSON';
    throw new BerthError('malformed_json', `Request body is ${problem}`, { cause: error });
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value);
}
