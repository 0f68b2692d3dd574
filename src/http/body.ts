/** Reads a request's body: JSON, at most 64 KiB, counted while it arrives. */
import type { IncomingMessage } from 'node:http';
import type { Fields } from '../directories/fields.ts';
import { isExactNumber, parseJson } from '../directories/json-text.ts';
import { BerthError, ValidationError } from '../base/errors.ts';
import { BLANK, INVALID } from '../base/validation.ts';

const LIMIT = 65_536;
const JSON_TYPE = /^application\/json\s*(;|$)/i;
const OTHER_CHARSET = /;\s*charset\s*=\s*(?!"?utf-?8"?\s*(;|$))/i;

/** The fields of one object in a request. */
export interface NamedFields {
  /** The object of that name in the body, such as `directory` (specification, POST and PATCH). */
  readonly fields: Fields;
  /** The names of what stands beside it, where nothing counts. */
  readonly beside: readonly string[];
}

/**
 * The directory that the body is about.
 * @throws {BerthError} `unsupported_media_type`, `body_too_large`, `incomplete_body`, `malformed_json`;
 * {ValidationError} when the body is JSON without such an object.
 */
export async function readDirectoryFields(incoming: IncomingMessage): Promise<NamedFields> {
  return namedFields(await readJson(incoming), 'directory');
}

/**
 * The fields of a body that holds them directly. Clients of earlier versions wrap them in an object of that name.
 * @throws {BerthError} as above; {ValidationError} when the body or that member is no object.
 */
export async function readFieldsOrNamed(incoming: IncomingMessage, name: string): Promise<NamedFields> {
  const body = await readFields(incoming);
  return Object.hasOwn(body, name) ? namedFields(body, name) : { fields: body, beside: [] };
}

function namedFields(body: unknown, name: string): NamedFields {
  const { [name]: fields, ...beside } = isObject(body) ? body : {};
  if (fields === undefined || fields === null) throw new ValidationError({ [name]: [BLANK] });
  if (!isObject(fields)) throw new ValidationError({ [name]: [INVALID] });
  return { fields, beside: Object.keys(beside) };
}

/**
 * The body of a request whose fields stand in no object of their own.
 * @param isOptional whether there may be no body at all.
 * @throws {BerthError} as above; {ValidationError} when the body is no object.
 */
export async function readFields(incoming: IncomingMessage, { isOptional = false } = {}): Promise<Fields> {
  if (isOptional && incoming.headers['content-type'] === undefined && (await readBody(incoming)).length === 0)
    return {};
  const body = await readJson(incoming);
  if (!isObject(body)) throw new ValidationError({ body: [INVALID] });
  return body;
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
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw new BerthError('unsupported_media_type', 'Content-Encoding is not supported');
  }
}

/** Bodies that were asked for: more than one may need what can be read once. */
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

/** Reads by events: an iterator takes twice the time for a body in chunks of a byte. */
async function readBounded(incoming: IncomingMessage): Promise<Buffer> {
  const tooLarge = new BerthError('body_too_large', `Request body is over ${LIMIT} bytes`);
  if (Number(incoming.headers['content-length'] ?? 0) > LIMIT) throw tooLarge;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let size = 0;
  const keep = (chunk: Buffer): void => {
    size += chunk.length;
    chunks.push(chunk);
    // The request is not cut off, so that its client reads the answer.
    if (size > LIMIT) reject(tooLarge);
  };
  const isWhole = (): void => resolve(Buffer.concat(chunks, size));
  // The client went away or was cut off: nobody reads the answer, and it is not our failure.
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
