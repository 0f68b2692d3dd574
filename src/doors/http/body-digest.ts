/**
 * Compares the checksums that a client sends with the body that arrives: `Content-MD5` (RFC 1864), `Digest` (RFC 3230) and
 * `Content-Digest` (RFC 9530). Unknown algorithms are ignored, as these RFCs say.
 */
import { createHash, type Hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { ValidationError } from '../../foundation/base/errors.ts';

interface Expected {
  readonly field: string;
  readonly hash: Hash;
  readonly digest: string;
}

const ALGORITHMS: Readonly<Record<string, string>> = { md5: 'md5', 'sha-256': 'sha256', 'sha-512': 'sha512' };
const BASE64 = /^[A-Za-z\d+/]+={0,2}$/;

/**
 * Passes the bytes on.
 * @throws {ValidationError} at once when a checksum cannot be parsed; after the last byte when it does not match.
 */
export function checkedBytes(headers: IncomingHttpHeaders, bytes: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const expected = expectedIn(headers);
  return expected.length === 0 ? bytes : checking(expected, bytes);
}

async function* checking(expected: readonly Expected[], bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of bytes) {
    for (const { hash } of expected) hash.update(chunk);
    yield chunk;
  }
  const wrong = expected.filter(({ hash, digest }) => hash.digest('base64') !== digest);
  if (wrong.length > 0)
    throw new ValidationError(Object.fromEntries(wrong.map(({ field }) => [field, ['is not that of the body']])));
}

function expectedIn(headers: IncomingHttpHeaders): Expected[] {
  const md5 = headers['content-md5'];
  return [
    ...(md5 === undefined ? [] : [expectedOf('content_md5', 'md5', String(md5).trim())]),
    ...listed('digest', headers['digest'], /^([\w-]+)=(.+)$/),
    ...listed('content_digest', headers['content-digest'], /^([\w-]+)=:(.+):$/),
  ];
}

function listed(field: string, header: string | string[] | undefined, form: RegExp): Expected[] {
  if (header === undefined) return [];
  return String(header)
    .split(',')
    .flatMap((part) => {
      const [, name, digest] = form.exec(part.trim()) ?? [];
      if (name === undefined || digest === undefined) throw invalid(field);
      const algorithm = ALGORITHMS[name.toLowerCase()];
      return algorithm === undefined ? [] : [expectedOf(field, algorithm, digest)];
    });
}

function expectedOf(field: string, algorithm: string, digest: string): Expected {
  const hash = createHash(algorithm);
  if (!BASE64.test(digest) || Buffer.from(digest, 'base64').length !== createHash(algorithm).digest().length)
    throw invalid(field);
  return { field, hash, digest };
}

function invalid(field: string): ValidationError {
  return new ValidationError({ [field]: ['is invalid'] });
}
