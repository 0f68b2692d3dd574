/**
 * Streams a ZIP archive (PKWARE's APPNOTE 6.3): files are stored uncompressed, each followed by its checksum, with names in
 * UTF-8. Only the names are kept in memory.
 */
import { crc32 } from 'node:zlib';

export interface ZippedFile {
  readonly name: string;
  readonly size: number;
  readonly modified: Date;
  read(): AsyncIterable<Uint8Array>;
}

/** How many bytes an archive can hold without the format's 64-bit extension, minus room for names. */
export const MOST_ZIPPED_BYTES = 4_000_000_000;

/** The checksum follows the bytes; the name is UTF-8 (section 4.4.4). */
const FLAGS = 0x0808;
const VERSION = 20;

export async function* zipped(files: Iterable<ZippedFile>): AsyncGenerator<Uint8Array> {
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, size, modified, read } of files) {
    const bytes = Buffer.from(safe(name));
    const time = dosTime(modified);
    const local = header(0x04034b50, [
      [2, VERSION],
      [2, FLAGS],
      [2, 0],
      [4, time],
      [4, 0],
      [4, 0],
      [4, 0],
      [2, bytes.length],
      [2, 0],
    ]);
    yield Buffer.concat([local, bytes]);
    let checksum = 0;
    for await (const chunk of read()) {
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
    const sums: Field[] = [
      [4, checksum],
      [4, size],
      [4, size],
    ];
    yield header(0x08074b50, sums);
    const entry = header(0x02014b50, [
      [2, VERSION],
      [2, VERSION],
      [2, FLAGS],
      [2, 0],
      [4, time],
      ...sums,
      [2, bytes.length],
      [2, 0],
      [2, 0],
      [2, 0],
      [2, 0],
      [4, 0],
      [4, offset],
    ]);
    directory.push(entry, bytes);
    offset += local.length + bytes.length + size + 16;
  }
  const central = Buffer.concat(directory);
  const count = directory.length / 2;
  yield central;
  yield header(0x06054b50, [
    [2, 0],
    [2, 0],
    [2, count],
    [2, count],
    [4, central.length],
    [4, offset],
    [2, 0],
  ]);
}

/** A number, and how many bytes it takes (little-endian). */
type Field = readonly [bytes: 2 | 4, value: number];

function header(signature: number, fields: readonly Field[]): Buffer {
  const buffer = Buffer.alloc(4 + fields.reduce((sum, [bytes]) => sum + bytes, 0));
  let at = buffer.writeUInt32LE(signature);
  for (const [bytes, value] of fields) at = buffer.writeUIntLE(value, at, bytes);
  return buffer;
}

/**
 * Makes sure that no program unpacks the file outside of its target folder. On Windows, `C:` is a drive and `a:b` a stream of
 * the file `a`.
 */
function safe(name: string): string {
  return name
    .replaceAll(/[\\:]/g, '_')
    .split('/')
    .filter((part) => !['', '.', '..'].includes(part))
    .join('/');
}

function dosTime(date: Date): number {
  const year = Math.max(date.getUTCFullYear() - 1980, 0);
  const month = date.getUTCMonth() + 1;
  const day = date.getUTCDate();
  const time = (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1);
  return (((year << 9) | (month << 5) | day) * 0x10000 + time) >>> 0;
}
