/** What a person at a terminal reads of the log. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { createLog, type Log, readableLines } from '../../../src/foundation/base/log.ts';

/** The lines that something logs. */
function linesOf(write: (log: Log) => void): string[] {
  const lines: string[] = [];
  write(createLog('trace', { write: (json) => void lines.push(...readableLines(json, { withTime: false })) }));
  return lines.map(stripVTControlCharacters);
}

test('a line has the level, the message, and its logger’s and its own fields', () => {
  const lines = linesOf((log) => {
    log.trace('a');
    log.debug('b');
    log.info('berth listens');
    log.child({ node: 'a.example' }).warn({ rows: 3, on: false, of: null, list: [1, 'x'] }, 'old %s removed', 'rows');
    log.error({ reason: 'no space left', empty: '' }, 'failed');
    log.fatal({ directory: 'acme-corp' });
  });
  assert.deepEqual(lines, [
    'TRACE a',
    'DEBUG b',
    'INFO  berth listens',
    'WARN  old rows removed node=a.example rows=3 on=false of=null list=[1,"x"]',
    'ERROR failed reason="no space left" empty=""',
    'FATAL directory=acme-corp',
  ]);
});

test('an error is shown below with its stack, its causes and its fields', () => {
  const cause = new TypeError('inner');
  const error = Object.assign(new Error('outer', { cause }), { code: 'EX', path: '/a b' });
  const lines = linesOf((log) => log.error({ err: error, request_id: 'r1' }, 'a request failed'));
  assert.equal(lines[0], 'ERROR a request failed request_id=r1');
  assert.equal(lines[1], '    Error: outer');
  assert.match(lines[2] ?? '', /^ {8}at .*readable-log\.test\.ts/);
  const second = lines.indexOf('    caused by: TypeError: inner');
  assert.ok(second > 2);
  assert.match(lines[second + 1] ?? '', /^ {8}at .*readable-log\.test\.ts/);
  assert.equal(lines.at(-1), '      code=EX path="/a b"');
});

test('the errors in an error are shown, and a field named err that is none', () => {
  const both = new AggregateError([new Error('one'), new Error('two')], 'both');
  const lines = linesOf((log) => log.error({ err: both }, 'x')).filter((line) => !/^ +at /.test(line));
  assert.deepEqual(lines, ['ERROR x', '    AggregateError: both', '      Error: one', '      Error: two']);
  assert.deepEqual(
    linesOf((log) => log.error({ err: 'no error' }, 'x')),
    ['ERROR x err="no error"'],
  );
});

test('no text can look like another line, or move the cursor', () => {
  const hostile = 'x\n12:00:00.000 INFO  all is well \u001b[2J\u202e';
  const lines = linesOf((log) => log.warn({ [hostile]: 1, file: hostile, err: new Error(hostile) }, hostile));
  for (const [index, line] of lines.entries()) {
    assert.match(line, index === 0 ? /^WARN {2}x/ : /^ {4}/);
    // oxlint-disable-next-line no-control-regex -- those are what must not be there
    assert.doesNotMatch(line, /[\u0000-\u001f\u007f\u202e]/);
  }
});

test('on a terminal berth logs lines with the time, in colour, and without secrets', () => {
  const log = fileURLToPath(new URL('../../../src/foundation/base/log.ts', import.meta.url));
  const code = `import { createLog } from '${log}';
createLog('info').info({ port: 8443, password: 'hidden' }, 'berth listens');`;
  const command = `${process.execPath} --input-type=module --eval "$CODE"`;
  const { stdout } = spawnSync('script', ['-qec', command, '/dev/null'], {
    env: { PATH: process.env['PATH'], TERM: 'xterm', CODE: code },
    encoding: 'utf8',
  });
  const said = stdout.trim();
  assert.match(said, /\u001b\[32mINFO\u001b\[39m/);
  assert.match(stripVTControlCharacters(said), /^\d\d:\d\d:\d\d\.\d{3} INFO {2}berth listens port=8443$/);
});
