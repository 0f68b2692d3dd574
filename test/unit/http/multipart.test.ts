/** The file in a form, however the form is written and wherever it is cut. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fc } from '../../support/fast-check.ts';
import { BerthError } from '../../../src/foundation/base/errors.ts';
import { fileInForm, isForm } from '../../../src/interfaces/http/multipart.ts';
import { TIMEOUT_SECONDS } from '../../support/poll.ts';

const TYPE = 'multipart/form-data; boundary=----b';
const END = '\r\n------b--\r\n';

function part(content: string, ...headers: string[]): string {
  return `------b\r\n${headers.join('\r\n')}\r\n\r\n${content}`;
}

async function* inPieces(body: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer, void, void> {
  for (let at = 0, i = 0; at < body.length; i += 1) {
    const size = sizes[i % sizes.length] ?? body.length;
    yield Buffer.from(body.subarray(at, at + size));
    at += size;
  }
}

/** The file; the message of a refusal; `hangs` when neither comes. */
async function fileIn(body: string | Buffer, sizes: readonly number[] = [], type = TYPE): Promise<string> {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'latin1') : body;
  const read = async (): Promise<string> => {
    const chunks: Buffer[] = [];
    try {
      const { content } = await fileInForm(inPieces(bytes, sizes), type);
      for await (const chunk of content) chunks.push(chunk);
    } catch (error) {
      if (error instanceof BerthError) return error.message;
      throw error;
    }
    return Buffer.concat(chunks).toString('latin1');
  };
  const over = new AbortController();
  const late = sleep(1000 * TIMEOUT_SECONDS, 'hangs', { signal: over.signal }).catch(() => 'hangs');
  return Promise.race([read().finally(() => over.abort()), late]);
}

const BROKEN = 'The form is incomplete. Try again.';
const BROWSER = 'Content-Disposition: form-data; name="file"; filename="a.csv"';

void describe('a form', () => {
  const forms: Readonly<Record<string, string>> = {
    'as browsers send it': part('data', BROWSER, 'Content-Type: text/csv') + END,
    'with a name without quotes, as .NET sends it':
      part('data', "Content-Disposition: form-data; name=file; filename=a.csv; filename*=utf-8''a.csv") + END,
    'with filename* only':
      part('data', 'Content-Disposition: form-data; name="file"; filename*=UTF-8\'\'na%C3%AFve.csv') + END,
    'with a text field before the file': `${part('Jane', 'Content-Disposition: form-data; name="by"')}\r\n${part('data', BROWSER)}${END}`,
    'with a text field after the file': `${part('data', BROWSER)}\r\n${part('Jane', 'Content-Disposition: form-data; name="by"')}${END}`,
    'with a second file': `${part('data', BROWSER)}\r\n${part('other', BROWSER)}${END}`,
    'with a preamble and an epilogue': `preamble\r\n${part('data', BROWSER)}${END}epilogue`,
    'with the headers in another order':
      part('data', 'Content-Type: text/csv', 'content-length: 4', BROWSER.toLowerCase()) + END,
    'with a folded header': part('data', BROWSER.replace('; f', ';\r\n f')) + END,
    'with a quote in the name':
      part('data', 'Content-Disposition: form-data; name="file"; filename="a\\";b.csv"') + END,
    'with a file that has no name':
      part('data', 'Content-Disposition: form-data; name="file"', 'Content-Type: application/octet-stream') + END,
    'with an unknown character set':
      part('data', "Content-Disposition: form-data; filename*=none''a", 'Content-Type: a/b; charset=x') + END,
  };
  for (const [how, text] of Object.entries(forms))
    test(how, async () => {
      for (const sizes of [[], [1], [7], [64, 3]]) assert.equal(await fileIn(text, sizes), 'data');
    });

  test('with a quoted boundary', async () => {
    const type = 'Multipart/Form-Data; charset=utf-8; Boundary="----b"';
    assert.ok(isForm(type));
    assert.equal(await fileIn(part('data', BROWSER) + END, [], type), 'data');
  });

  test('that is not a program', () => {
    for (const type of [undefined, '', 'multipart/mixed; boundary=b', 'text/plain'])
      assert.equal(isForm(type), false, type);
  });

  test('without a boundary, or with one that only looks like it', async () => {
    for (const type of [
      'multipart/form-data',
      'multipart/form-data; boundary=',
      'multipart/form-data; x-boundary=b',
      'multipart/form-data; x="boundary=b"',
    ])
      await assert.rejects(fileInForm(inPieces(Buffer.from(''), []), type), { code: 'unsupported_media_type' }, type);
  });

  const refused: Readonly<Record<string, string>> = {
    'that is empty': '',
    'without a file': part('Jane', 'Content-Disposition: form-data; name="by"') + END,
    'without parts': '------b--\r\n',
    'of zeros': '\0'.repeat(40_000),
    'without headers': `------b\r\n\r\ndata${END}`,
    'of another disposition': part('data', 'Content-Disposition: attachment; filename="a"') + END,
    'with endless headers': `------b\r\n${'X-Y: z\r\n'.repeat(10_000)}`,
    'with an endless header': `------b\r\nX: ${'z'.repeat(100_000)}`,
    'with too much before the file': `${part('x'.repeat(100_000), 'Content-Disposition: form-data; name="by"')}\r\n${part('data', BROWSER)}${END}`,
    'with too many fields before the file': `${`${part('x', 'Content-Disposition: form-data; name="by"')}\r\n`.repeat(2000)}${part('data', BROWSER)}${END}`,
  };
  for (const [how, text] of Object.entries(refused))
    test(`${how} is refused`, async () => {
      assert.equal(await fileIn(text, [1000]), BROKEN);
    });

  test('have the name of their file, without folders', async () => {
    for (const [sent, name] of [
      ['a.csv', 'a.csv'],
      ['C:\\\\x\\\\ä.csv', 'ä.csv'],
      ['%22a%22.csv', '"a".csv'],
    ]) {
      const body = Buffer.from(part('data', BROWSER.replace('a.csv', sent ?? '')) + END);
      const file = await fileInForm(inPieces(body, []), TYPE);
      assert.equal(file.name, name);
      file.close();
    }
  });

  test('in which no file was chosen', async () => {
    assert.equal(await fileIn(part('', BROWSER.replace('a.csv', '')) + END), 'Choose a file first.');
  });

  test('need not end after its file', { timeout: 5000 }, async () => {
    const text = part('data', BROWSER) + END;
    async function* unending(): AsyncGenerator<Buffer, void, void> {
      yield Buffer.from(text);
      await new Promise(() => undefined);
    }
    const chunks: Buffer[] = [];
    for await (const chunk of (await fileInForm(unending(), TYPE)).content) chunks.push(chunk);
    assert.equal(Buffer.concat(chunks).toString(), 'data');
  });

  test('that is cut off is never taken for a whole one', async () => {
    const text = part('da\r\n--ta', BROWSER) + END;
    const certain = text.indexOf(END) + '\r\n------b'.length;
    for (let length = 0; length < certain; length += 1)
      for (const sizes of [[], [1], [5]]) {
        const answer = await fileIn(text.slice(0, length), sizes);
        assert.equal(answer, BROKEN, `${length} bytes`);
      }
  });

  test('keeps every byte of its file, in pieces of any size', async () => {
    const piece = fc.constantFrom(
      '\r',
      '\n',
      '-',
      '\r\n--',
      '\r\n------',
      '\r\n----b',
      'b',
      '\0',
      '\xff',
      'text'.repeat(5000),
    );
    const story = fc.asyncProperty(
      fc.array(piece, { maxLength: 30 }),
      fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 5 }),
      async (pieces, sizes) => {
        const content = pieces.join('');
        fc.pre(!content.includes('\r\n------b'));
        assert.equal(await fileIn(`${part(content, BROWSER)}${END}`, sizes), content);
      },
    );
    await fc.assert(story, { numRuns: 300 });
  });

  test('of any bytes has an end', async () => {
    const token = fc.constantFrom(
      '\r\n',
      '------b',
      '--',
      '-',
      BROWSER,
      'Content-Disposition: form-data',
      ': ',
      ';',
      '"',
      'x',
      '\r\n\r\n',
      '\0',
    );
    const story = fc.asyncProperty(
      fc.array(token, { maxLength: 60 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 }),
      async (tokens, sizes) => assert.notEqual(await fileIn(tokens.join(''), sizes), 'hangs'),
    );
    await fc.assert(story, { numRuns: 1000 });
  });
});
