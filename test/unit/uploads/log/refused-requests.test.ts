/** Refused requests, line by line. `test/sshd/explain.test.ts` has those of a real sshd. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEvent } from '../../../../src/arrivals/uploads/log/log-line.ts';
import { RefusedRequests, type StatusOf } from '../../../../src/arrivals/uploads/log/refused-requests.ts';
import { refusalIn, refusalInWords } from '../../../../src/rules/history/refusals.ts';

const HOUR = 3600e6;
const USER = 1_879_048_200;

const folder = (mode: number, uid = USER) => ({ uid, gid: uid, mode, isDirectory: () => true });
const TREE: Record<string, ReturnType<typeof folder>> = {
  '': folder(0o700),
  in: folder(0o700),
  closed: folder(0o500),
  'closed/below': folder(0o700),
  shut: folder(0o600),
  'shut/below': folder(0o700),
  foreign: folder(0o755, 1000),
};
const statusOf: StatusOf = (path) => TREE[path];

/** What is kept of these lines of one process, which come at the same time unless it is given. */
function kept(lines: readonly string[], requests = new RefusedRequests(), at = HOUR): string[] {
  return lines.flatMap((text) => {
    const found = requests.read({ at, text, event: readEvent(text) }, statusOf);
    if (!found) return [];
    const { path = '', from, reason } = found;
    const refusal = refusalIn(reason);
    assert.ok(refusal);
    return `${refusal.wish} ${from === undefined ? '' : `${from} -> `}${path}: ${refusalInWords(refusal)}`;
  });
}

const DENIED = 'sent status Permission denied';
const opening = (name: string): string => `open "${name}" flags WRITE,CREATE,TRUNCATE mode 0666`;

test('the reason is what is in the way, the outermost folder first', () => {
  const cases: readonly (readonly [string, string])[] = [
    [opening('in/a'), 'write in/a: Permission denied'],
    [opening('closed/a'), 'write closed/a: Permission denied (its folder has the mode 0500)'],
    [opening('closed/below/a'), 'write closed/below/a: Permission denied'],
    [opening('shut/below/a'), 'write shut/below/a: Permission denied (a folder above it has the mode 0600)'],
    [opening('foreign/a'), 'write foreign/a: Permission denied (its folder belongs to UID 1000)'],
    [opening('../a'), 'write /files/../a: Permission denied (only what is in /files can be changed)'],
    ['rmdir name "closed/below"', 'delete closed/below: Permission denied (its folder has the mode 0500)'],
    ['set "foreign" owner 5 group 5', 'change foreign: Permission denied (it belongs to UID 1000)'],
    ['opendir "shut/below"', 'list shut/below: Permission denied (its folder has the mode 0600)'],
    ['rename old "in/a" new "closed/a"', 'rename in/a -> closed/a: Permission denied (its folder has the mode 0500)'],
    [
      `remove name "/${'x'.repeat(500)}`,
      `request /${'x'.repeat(500)}...: Permission denied (only what is in /files can be changed)`,
    ],
  ];
  for (const [line, expected] of cases) assert.deepEqual(kept([line, DENIED]), [expected]);
});

test('a write that fails says why before it is refused; several in a row are one', () => {
  const failing = (name: string, why: string) => [
    `error: process_write: write "${name}": ${why}`,
    'sent status Failure',
  ];
  const name = 'x'.repeat(100);
  assert.deepEqual(
    kept([
      opening('in/a'),
      ...failing('in/a', 'Disk quota exceeded'),
      ...failing('in/a', 'Disk quota exceeded'),
      ...failing(name, 'No space left on device'),
      ...failing('in/b', 'Input/output error'),
    ]),
    [
      'write in/a: Failure (the quota is used up)',
      `write ${name}...: Failure (the disk is full)`,
      'write in/b: Failure (Input/output error)',
    ],
  );
});

test('what clients do all the time is left out, and so is what sshd says about its own beginning', () => {
  const usual = [
    ...['symlink', 'copy-data', 'home-directory'].map((name) => `Refusing denylisted ${name} request`),
    'stat name "in/a"',
    'sent status No such file',
    'mkdir name "in" mode 0777',
    'sent status Failure',
    'open "in/a" flags READ mode 0666',
    'sent status No such file',
    'open "in/a" flags WRITE mode 0666',
    'sent status No such file',
    'sent status Permission denied',
    'realpath "."',
    'sent status Failure',
  ];
  assert.deepEqual(kept(usual), []);
});

test('a process has five in an hour, and none twice', () => {
  const requests = new RefusedRequests();
  const flood = Array.from({ length: 1000 }, (_, i) => [opening(`/${i}`), DENIED]).flat();
  const first = kept(flood, requests);
  assert.equal(first.length, 5);
  assert.deepEqual(kept(flood, requests, 1.9 * HOUR), []);
  assert.deepEqual(kept(flood, requests, 2.1 * HOUR), first);
  assert.equal(kept([opening('/1'), DENIED, opening('/1'), DENIED]).length, 1);
});
