/** The pages for administrators agree with the program: its settings and its commands. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readConfig, SETTINGS } from '../../../src/foundation/base/config.ts';
import { KEYS_ID } from '../../../src/machine/sftp/paths.ts';
import { scratch } from '../../support/scratch.ts';

const read = (name: string): string => readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8');

test('packaging/berth.env names every setting, with its default', () => {
  const settings = [...read('packaging/berth.env').matchAll(/^#(BERTH_\w+)=(.*)$/gm)].map(
    ([, name = '', value = '']) => [name, value.replaceAll('"', '')] as const,
  );
  assert.deepEqual(readConfig(Object.fromEntries(settings)), readConfig({}));
  assert.deepEqual(settings.map(([name]) => name).toSorted(), SETTINGS.toSorted());
});

test('the pages name only commands, options and settings that there are', () => {
  const known = new Map(
    [...read('packaging/completion').matchAll(/^ {2}\['(berth[^']*)'\]='([^']*)'$/gm)].map(
      ([, command = '', words = '']) => [command, new Set(words.split(' '))] as const,
    ),
  );
  const settings = new Set([...read('packaging/berth.env').matchAll(/^#(BERTH_\w+)=/gm)].map(([, name]) => name));
  const pages = globSync('{README.md,docs/*.md}', { cwd: fileURLToPath(new URL('../../../', import.meta.url)) });
  const strangers = pages.flatMap((page) => {
    const text = read(page);
    const shell = text.replaceAll(/```(?!sh\n|console\n)\w[^]*?```/g, '');
    const code = [...shell.matchAll(/```[^]*?```|`[^`\n]+`/g)].map(([each]) => each).join('\n');
    const commands = [...code.matchAll(/(?:`|^|# |sudo |&& )(berth [a-z][^`|&;#\n]*)/gm)].filter(([, line = '']) => {
      let command = 'berth';
      for (const word of line.trim().split(/\s+/).slice(1)) {
        const words = known.get(command);
        const isArgument = !word.startsWith('--') && !known.has(`${command} help`) && !words?.has('help');
        if (!words?.has(word.replace(/=.*/, '')) && !isArgument) return true;
        if (known.has(`${command} ${word}`)) command += ` ${word}`;
      }
      return false;
    });
    const variables = [...text.matchAll(/\bBERTH_[A-Z_]*[A-Z]\b/g)].map(([name]) => name);
    return [...commands.map(([, line]) => line), ...variables.filter((name) => !settings.has(name))].map(
      (each) => `${page}: ${each}`,
    );
  });
  assert.deepEqual(strangers, []);
  assert.ok(known.size > 3 && pages.length > 10);
});

test('the examples for nginx and caddy are those of docs/vm.md, which the test in a booted machine tries', () => {
  const block = (language: string) => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(read('docs/vm.md'))?.[1];
  assert.equal(block('nginx'), read('packaging/examples/nginx.conf'));
  assert.equal(block('caddy'), read('packaging/examples/Caddyfile'));
});

test('the examples for Compose and Kubernetes give the capabilities that the Dockerfile names, and no others', () => {
  const needed = /^# Powers: (.*)$/m.exec(read('Dockerfile'))?.[1];
  assert.ok(needed);
  const added = /cap_add:\n((?: +- \w+\n)+)/.exec(read('packaging/examples/compose.yaml'))?.[1];
  assert.equal(added?.match(/\w+/g)?.join(', '), needed);
  assert.equal(/add: \[(.*)\]/.exec(read('packaging/examples/kubernetes.yaml'))?.[1], needed);
});

test('a rootless container has to map berth’s user IDs', () => {
  assert.match(read('scripts/container'), new RegExp(`^first_user=${KEYS_ID}$`, 'm'));
  assert.match(read('docs/containers.md'), new RegExp(`--uidmap ${KEYS_ID}:.* --gidmap ${KEYS_ID}:`));
});

test('the API is started after sshd, so that what it answers with 201 can log in', () => {
  assert.match(read('packaging/systemd/berth.service'), /^After=.*\bberth-sshd\.service\b/m);
});

test('at a second install the file of settings is in force, and a variable that says something else is reported', () => {
  using place = scratch();
  const file = join(place.dir, 'berth.env');
  writeFileSync(file, '#BERTH_SFTP_PORT=2222\nBERTH_API_PORT="9000"\n');
  const script = `. scripts/lib/say.sh; . scripts/lib/environment.sh; use_settings ${file} packaging/berth.env
    echo "API \${BERTH_API_PORT:-8443}, SFTP \${BERTH_SFTP_PORT:-2222}"`;
  const install = (given: Record<string, string>) => {
    const { stdout, stderr } = spawnSync('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: fileURLToPath(new URL('../../../', import.meta.url)),
      env: { PATH: process.env['PATH'], ...given },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'], // bash takes a socket for a remote shell's
    });
    return [stdout, stderr];
  };
  const inForce = 'API 9000, SFTP 2222\n';
  assert.deepEqual(install({}), [inForce, '']);
  assert.deepEqual(install({ BERTH_API_PORT: '9000', BERTH_SFTP_PORT: '2222' }), [inForce, '']);
  const [stdout, stderr] = install({ BERTH_API_PORT: '9443', BERTH_SFTP_PORT: '2022' });
  assert.equal(stdout, inForce);
  assert.match(stderr ?? '', /^berth: BERTH_API_PORT stays "9000", not "9443": settings are changed in /m);
  assert.match(stderr ?? '', /^berth: BERTH_SFTP_PORT stays "2222", not "2022": /m);
});
