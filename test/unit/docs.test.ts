/** The snippets of docs/ do what they say, its table has every setting, and every file that a page or a comment names exists. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { SETTINGS } from '../../src/foundation/base/config.ts';
import { fileURLToPath } from 'node:url';
import { sign, signatureHeader } from '../../src/deliveries/webhooks/signature.ts';

const PROJECT = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(join(PROJECT, path), 'utf8');
const webhooks = read('docs/webhooks.md');
const snippet = (language: string): string => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(webhooks)?.[1] ?? '';

const BODY = Buffer.from('{"event":"file.uploaded","filename":"ünï"}');
const SECRET = 'giY3ZcXKHfnTXGw5A5DhhpXLUE3RygXD';
const HEADER = signatureHeader(sign(BODY, SECRET));

test('the Node snippet accepts a right signature and no other', async () => {
  const { verify } = (await import(`data:text/javascript,${encodeURIComponent(snippet('js'))}`)) as {
    verify(body: Buffer, header: string | undefined, secrets: readonly string[]): boolean;
  };
  assert.equal(verify(BODY, HEADER, ['old', SECRET]), true);
  assert.equal(verify(BODY, HEADER.replace(/.$/, 'x'), [SECRET]), false);
  assert.equal(verify(Buffer.concat([BODY, BODY]), HEADER, [SECRET]), false);
  assert.equal(verify(BODY, undefined, [SECRET]), false);
});

test('the Python snippet accepts a right signature and no other', () => {
  const python = (body: Buffer, header: string): string =>
    execFileSync(
      'python3',
      [
        '-c',
        `import sys\n${snippet('python')}\nprint(verify(sys.stdin.buffer.read(), sys.argv[1], sys.argv[2:]))`,
        header,
        SECRET,
      ],
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
  const listed = new Set(
    [...read('docs/operations.md').matchAll(/^\| (`BERTH_.*?) \|/gm)].flatMap(
      (row) => (row[1] ?? '').match(/BERTH_\w+/g) ?? [],
    ),
  );
  assert.deepEqual(listed, new Set(SETTINGS));
});

test('every link between the pages leads somewhere', () => {
  for (const page of globSync(
    ['README.md', '{src,openssh,clients}/README.md', 'clients/typescript/README.md', 'docs/*.md'],
    { cwd: PROJECT },
  )) {
    for (const [, target = ''] of read(page).matchAll(/\]\((?!https?:)([^)]+)\)/g)) {
      const [file = '', heading] = target.split('#');
      const path = file === '' ? page : normalize(join(dirname(page), file));
      assert.ok(existsSync(join(PROJECT, path)), `${page}: ${target}`);
      if (heading === undefined) continue;
      const headings = [...read(path).matchAll(/^#+ (.*)$/gm)].map(([, words = '']) => slugOf(words));
      assert.ok(headings.includes(heading), `${page}: ${target}`);
    }
  }
});

/** As a heading's anchor is made of its words. */
function slugOf(words: string): string {
  return words
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-');
}

/** The name of a file, with as much of its path as the text gives. */
const FILE_NAME = /(?<![\w./@:$}*-])((?:[\w.-]+\/)*[\w-][\w.-]*\.(?:tsx?|mjs|cjs|sh|md))(?![\w*/])/g;

test('every file that a page or a comment names exists', () => {
  const files = globSync(['*', '{.ci,clients,docs,openssh,packaging,scripts,src,test}/**/*'], {
    cwd: PROJECT,
    exclude: ['**/node_modules'],
  }).filter((file) => statSync(join(PROJECT, file)).isFile());
  const known = new Set(
    files.flatMap((file) => file.split('/').map((_, index, parts) => parts.slice(index).join('/'))),
  );
  const missing = files
    .filter((file) => /\.(md|tsx?|[mc]?js|sh)$|^(scripts|openssh|packaging|\.ci)\/[^.]*$|^Dockerfile$/.test(file))
    .flatMap((file) =>
      [...proseOf(file).matchAll(FILE_NAME)].flatMap(([, name = '']) =>
        known.has(name.replace(/^[./]+/, '')) ? [] : [`${file} names ${name}`],
      ),
    );
  assert.deepEqual(missing, []);
});

/** What people read in a file: a page as a whole, a program's comments. */
function proseOf(file: string): string {
  const text = read(file);
  if (file.endsWith('.md')) return text;
  const comment = /\.(tsx?|[mc]?js)$/.test(file) ? /\/\*[^]*?\*\/|(?<!:)\/\/.*/g : /^\s*#.*/gm;
  return (text.match(comment) ?? []).join('\n');
}

test('what a machine test runs of a page begins exactly one of its blocks', () => {
  let checked = 0;
  for (const file of globSync('test/machine/{[0-9]*,common.sh}', { cwd: PROJECT })) {
    const text = read(file);
    // As `chapter` in common.sh.
    const page = read(`docs/${/^page=(\S+)/m.exec(text)?.[1] ?? 'vm'}.md`);
    const firstLines = [...page.matchAll(/^```sh\n(.*)$/gm)].map(([, line]) => line);
    for (const [, single, double] of text.matchAll(/\bchapter (?:'([^']+)'|"([^"]+)")/g)) {
      const begins = firstLines.filter((line) => line === (single ?? double));
      assert.equal(begins.length, 1, `${file}: ${single ?? double}`);
      checked += 1;
    }
  }
  assert.ok(checked > 15);
});
