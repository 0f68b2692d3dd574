/** Names from clients as paths below files/, and which of them are temporary. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../../src/foundation/base/config.ts';
import { displayName, filePath, temporaryNames } from '../../../src/arrivals/uploads/file-path.ts';

test('relative, absolute and untidy names mean the same file', () => {
  for (const name of ['a/b', './a/b', '/files/a/b', '/files//a/./b', 'x/../a/b', '../files/a/b', '/../files/a/b/']) {
    assert.equal(filePath(name), 'a/b', name);
  }
});

test('a path outside files/ is no file of the directory', () => {
  for (const name of ['/files', '.', '..', '', '/', '/dev/log', '../dev/log', '/filesystem/a', 'a/../..']) {
    assert.equal(filePath(name), undefined, name);
  }
});

test('bytes that are not UTF-8 stay apart as paths and are shown with U+FFFD', () => {
  const one = filePath('a\xff');
  const two = filePath('a\xfe');
  assert.ok(one && two && one !== two);
  assert.equal(displayName(one), 'a\u{fffd}');
  assert.equal(displayName(two), 'a\u{fffd}');
});

test('the default patterns know the temporary names of common clients, and no others', () => {
  const isTemporary = temporaryNames(readConfig({}).tempNames);
  const temporary = [
    'x.filepart',
    'd/x.part',
    'x.5e1f7a2b.partial',
    'x.tmp',
    'x.temp',
    '.in.report.csv',
    '.report.csv',
  ];
  const further = ['x.writing', 'x.uploading', 'x.inprogress', '.giosaveA1b2C3', '.x.csv.Ab12Cd', 'd/sedAb12Cd'];
  for (const name of [...temporary, ...further, 'data/1f/1f2e-restic-temp-8c1e5d']) {
    assert.equal(isTemporary(name), true, name);
  }
  for (const name of [
    'x',
    'x.filepart.csv',
    'part',
    'x.part/y',
    'in.x.',
    'x.Part',
    '.d/x',
    'sed',
    'sediment.csv',
    'x~',
    'rewriting',
  ]) {
    assert.equal(isTemporary(name), false, name);
  }
  assert.equal(temporaryNames(readConfig({ BERTH_TEMP_NAMES: '' }).tempNames)('x.tmp'), false);
});
