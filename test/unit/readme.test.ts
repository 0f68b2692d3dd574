/** The README's snippets do what it says. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { sign, signatureHeader } from '../../src/webhooks/signature.ts';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
const snippet = (language: string): string => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(readme)?.[1] ?? '';

const BODY = Buffer.from('{"event":"file.uploaded","filename":"ünï"}');
const SECRET = 'giY3ZcXKHfnTXGw5A5DhhpXLUE3RygXD';
const HEADER = signatureHeader(sign(BODY, SECRET));

test('the Node snippet accepts a right signature and no other', async () => {
  const { verify } = (await import(`data:text/javascript,${encodeURIComponent(snippet('js'))}`)) as {
    verify(body: Buffer, header: string | undefined, secret: string): boolean;
  };
  assert.equal(verify(BODY, HEADER, SECRET), true);
  assert.equal(verify(BODY, HEADER.replace(/.$/, 'x'), SECRET), false);
  assert.equal(verify(Buffer.concat([BODY, BODY]), HEADER, SECRET), false);
  assert.equal(verify(BODY, undefined, SECRET), false);
});

test('the Python snippet accepts a right signature and no other', () => {
  const python = (body: Buffer, header: string): string =>
    execFileSync(
      'python3',
      ['-c', `import sys\n${snippet('python')}\nprint(verify(sys.stdin.buffer.read(), *sys.argv[1:]))`, header, SECRET],
      {
        input: body,
        encoding: 'utf8',
      },
    ).trim();
  assert.equal(python(BODY, HEADER), 'True');
  assert.equal(python(BODY, 'sha256=00'), 'False');
  assert.equal(python(Buffer.from('{}'), HEADER), 'False');
});

test('every variable of the configuration is in the table, and no other', () => {
  const source = readFileSync(new URL('../../src/config.ts', import.meta.url), 'utf8');
  const known = new Set([...source.matchAll(/^ {2}(BERTH_\w+):/gm)].map((match) => match[1]));
  const listed = new Set(
    [...readme.matchAll(/^\| (`BERTH_.*?) \|/gm)].flatMap((row) => (row[1] ?? '').match(/BERTH_\w+/g) ?? []),
  );
  assert.deepEqual(listed, known);
});
