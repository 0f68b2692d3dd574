/** The commands that the Connect page shows, run as they stand. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { clientCommands } from '../../src/interfaces/dashboard/pages/directory/client-commands.ts';
import { startBerth, type TestDirectory } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { dashboardOf, pathOf, unescaped } from '../support/directory-page.ts';
import { scratch } from '../support/scratch.ts';

const ASKPASS = fileURLToPath(new URL('../support/askpass', import.meta.url));

/** The command as it is shown on the page, with what a test needs beside it. */
async function commandOf(visitor: Visitor, directory: TestDirectory, client: string): Promise<string> {
  const { text: html } = await visitor.get(`${pathOf(directory)}/access`);
  const shown =
    new RegExp(`<summary>${client}</summary><p[^>]*>[^<]*</p><div class="code"><pre[^>]*>([^<]*)</pre>`).exec(
      html,
    )?.[1] ?? '';
  return unescaped(shown);
}

const CLIENTS = {
  sftp: (command: string, known: string) =>
    `echo ls | ${command.replace('sftp', `sftp -oUserKnownHostsFile=${known} -oStrictHostKeyChecking=yes`)}`,
  curl: (command: string, _: string, { username, password }: TestDirectory) =>
    command.replace(`--user ${username}`, `--user ${username}:${password}`),
  lftp: (command: string, known: string, { username, password }: TestDirectory) =>
    command.replace(
      'lftp ',
      `lftp -e 'set sftp:connect-program "ssh -a -x -oUserKnownHostsFile=${known}"; ls; exit' -u ${username},${password} `,
    ),
  rclone: (command: string, _: string, { password }: TestDirectory) =>
    `${command.replace('--sftp-ask-password', '')} --sftp-pass "$(rclone obscure ${password})"`,
} as const;

for (const [client, prepared] of Object.entries(CLIENTS)) {
  const isThere = spawnSync('sh', ['-c', `command -v ${client}`]).status === 0;
  test(`the command for ${client} lists the files, from a server that it knows`, { skip: !isThere }, async () => {
    using files = scratch({ BERTH_DASHBOARD: 'on' });
    await using berth = await startBerth(files);
    using user = await signedIn(dashboardOf(berth), berth.accountId, 'member');
    const directory = await berth.directory();
    await using connection = await berth.connect(directory);
    const session = await connection.sftp();
    await new Promise((resolve, reject) =>
      session.writeFile('a-file.csv', 'x', (error) => (error ? reject(error) : resolve(0))),
    );
    const { text: html } = await user.get(`${pathOf(directory)}/access`);
    const known = join(files.dir, '.ssh', 'known_hosts');
    mkdirSync(join(files.dir, '.ssh'), { mode: 0o700 });
    const lines = [...html.matchAll(/data-copy="(\[127[^"]*)"/g)].map(([, line = '']) => line);
    assert.ok(lines.length > 0);
    writeFileSync(known, `${lines.join('\n')}\n`);
    const command = prepared(await commandOf(user, directory, client), known, directory);
    const env = {
      PATH: process.env['PATH'],
      HOME: files.dir,
      SSH_ASKPASS: ASKPASS,
      SSH_ASKPASS_REQUIRE: 'force',
      SECRET: directory.password,
    };
    const child = spawn('sh', ['-c', `${command} 2>&1`], { env, stdio: ['ignore', 'pipe', 'ignore'] });
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    assert.equal(code, 0, `${command}\n${output}`);
    assert.match(output, /a-file\.csv/);
  });
}

test('commands are quoted for a shell, and have an IPv6 address in brackets', () => {
  const key = { type: 'ssh-ed25519', fingerprint: `SHA256:${'a'.repeat(43)}`, known_hosts: '', sshfp: [] };
  const rsa = { ...key, type: 'ssh-rsa' };
  assert.deepEqual(clientCommands({ host: '2001:db8::1', port: 2222, username: 'acme-1' }, [key, rsa]), {
    sftp: "sftp -P 2222 'acme-1@[2001:db8::1]'",
    WinSCP: `winscp.exe sftp://acme-1@[2001:db8::1]:2222/ -hostkey="ssh-ed25519 255 ${'a'.repeat(43)}="`,
    FileZilla: 'sftp://acme-1@[2001:db8::1]:2222',
    lftp: "lftp 'sftp://acme-1@[2001:db8::1]:2222'",
    rclone:
      "rclone lsf :sftp: --sftp-host '[2001:db8::1]' --sftp-port 2222 --sftp-user acme-1 --sftp-ask-password --sftp-known-hosts-file ~/.ssh/known_hosts",
    curl: "curl --user acme-1 'sftp://[2001:db8::1]:2222/files/'",
  });
  const { sftp: plain } = clientCommands({ host: 'sftp.example.com', port: 22, username: 'acme-1' }, []);
  assert.equal(plain, 'sftp -P 22 acme-1@sftp.example.com');
});
