/** The names in a ZIP archive: no program unpacks one outside of its target folder. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zipped } from '../../../src/interfaces/dashboard/zip.ts';

test('no name leads out of the target folder, on Windows either', async () => {
  const names = ['../../a', '/b', 'C:/c', 'D:\\d', 'e.txt:stream', 'in/./../f'];
  const read = async function* () {
    yield Buffer.from('x');
  };
  const archive: Uint8Array[] = [];
  for await (const piece of zipped(names.map((name) => ({ name, size: 1, modified: new Date(0), read })))) {
    archive.push(piece);
  }
  const bytes = Buffer.concat(archive);
  const found: string[] = [];
  for (let at = bytes.indexOf('PK\x01\x02'); at !== -1; at = bytes.indexOf('PK\x01\x02', at + 4)) {
    found.push(bytes.toString('utf8', at + 46, at + 46 + bytes.readUInt16LE(at + 28)));
  }
  assert.deepEqual(found, ['a', 'b', 'C_/c', 'D__d', 'e.txt_stream', 'in/f']);
});
