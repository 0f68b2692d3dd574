/** The verification code on the Webhook page, run as it stands there against what berth really sends. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { dashboardPlaces, unescaped } from './webhook-place.ts';

const dashboardPlace = dashboardPlaces();

/** Puts the code into a folder with a program around it that prints whether the body at that path is signed. */
type Prepare = (folder: string, code: string) => readonly string[];

const LANGUAGES: Readonly<Record<string, { readonly probe: readonly string[]; readonly prepare: Prepare }>> = {
  'Node.js': {
    probe: [process.execPath, '--version'],
    prepare(folder, code) {
      const main = `import { readFileSync } from 'node:fs';
        const [body, header, ...secrets] = process.argv.slice(2);
        console.log(verify(readFileSync(body), header, secrets));`;
      writeFileSync(join(folder, 'main.mjs'), `${code}\n${main}`);
      return [process.execPath, join(folder, 'main.mjs')];
    },
  },
  Python: {
    probe: ['python3', '--version'],
    prepare(folder, code) {
      const main = 'import sys\nprint(verify(open(sys.argv[1], "rb").read(), sys.argv[2], sys.argv[3:]))';
      writeFileSync(join(folder, 'main.py'), `${code}\n${main}\n`);
      return ['python3', join(folder, 'main.py')];
    },
  },
  PHP: {
    probe: ['php', '--version'],
    prepare(folder, code) {
      const main = "echo verify(file_get_contents($argv[1]), $argv[2], array_slice($argv, 3)) ? 'true' : 'false';";
      writeFileSync(join(folder, 'main.php'), `${code}\n${main}\n`);
      return ['php', join(folder, 'main.php')];
    },
  },
  Go: {
    probe: ['go', 'version'],
    prepare(folder, code) {
      const main = `package main
        import ("example/webhook"; "fmt"; "os")
        func main() {
          body, _ := os.ReadFile(os.Args[1])
          fmt.Println(webhook.Verify(body, os.Args[2], os.Args[3:]...))
        }`;
      mkdirSync(join(folder, 'webhook'));
      writeFileSync(join(folder, 'go.mod'), 'module example\n\ngo 1.21\n');
      writeFileSync(join(folder, 'webhook', 'webhook.go'), code);
      writeFileSync(join(folder, 'main.go'), main);
      execFileSync('go', ['build', '-o', 'main', '.'], { cwd: folder });
      return [join(folder, 'main')];
    },
  },
};

test('the code in each language accepts berth’s signatures, and no others', async (t) => {
  await using place = await dashboardPlace();
  const { admin, path, berth, directory } = place;
  const { text } = await admin.get(path);
  const shown = [
    ...text.matchAll(/<summary>([^<]+)<\/summary><div[^>]*><pre[^>]*>([^]*?)<\/pre>.*?data-copy="([^"]*)"/g),
  ];
  assert.deepEqual(
    shown.map(([, language]) => language),
    Object.keys(LANGUAGES),
  );
  await admin.post(`${path}/test`);
  const { body, headers } = await berth.receiver.next();
  const header = String(headers['x-service-signature']);
  const file = join(berth.config.stateDir, 'body');
  const forged = join(berth.config.stateDir, 'forged');
  writeFileSync(file, body);
  writeFileSync(forged, body.toString().replace('test.txt', 'text.txt'));
  for (const [, language = '', code = '', copied = ''] of shown) {
    assert.equal(unescaped(code), unescaped(copied));
    const { probe, prepare } = LANGUAGES[language] ?? assert.fail(language);
    const [program = '', ...version] = probe;
    const isThere = spawnSync(program, version).status === 0;
    await t.test(language, { skip: !isThere && `${program} is not on this machine` }, () => {
      const folder = join(berth.config.stateDir, language.slice(0, 4));
      mkdirSync(folder);
      const [run = '', ...args] = prepare(folder, unescaped(code));
      const said = (...given: string[]): string =>
        execFileSync(run, [...args, ...given], { encoding: 'utf8' })
          .trim()
          .toLowerCase();
      assert.equal(said(file, header, directory.secret), 'true');
      assert.equal(said(forged, header, directory.secret), 'false');
      assert.equal(
        said(
          file,
          header.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
          directory.secret,
        ),
        'false',
      );
      assert.equal(said(file, header, `${directory.secret}x`), 'false');
      assert.equal(said(file, '', directory.secret), 'false');
      assert.equal(said(file, header), 'false');
      assert.equal(said(file, header, 'old', directory.secret), 'true', 'while the secret is replaced');
      assert.equal(said(file, header, directory.secret, 'new'), 'true', 'while the secret is replaced');
      assert.equal(said(file, header, 'old', 'new'), 'false');
    });
  }
});

test('docs/webhooks.md has the same code', () => {
  const docs = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8');
  for (const [file, language] of [
    ['verify.js', 'js'],
    ['verify.py', 'python'],
  ] as const) {
    const code = readFileSync(new URL(`../../src/interfaces/dashboard/snippets/${file}`, import.meta.url), 'utf8');
    assert.ok(docs.includes(`\`\`\`${language}\n${code}\`\`\``), file);
  }
});
