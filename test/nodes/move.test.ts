/** `berth node move` from one node to the other by OpenSSH, with uploads going on, and with what a hostile customer may have there. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempDisposableSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { assertWithin, rounds } from '../support/long.ts';
import { until } from '../support/poll.ts';
import { postgresOnly } from '../support/postgres.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { webhookOf } from '../support/berth.ts';
import { customer, SIZE } from './customer.ts';
import { filesOn, moved, refusal, sshTo } from './moving.ts';
import { rootSshd } from './root-sshd.ts';
import { type Created, letsIn, nodesPlace, type TestNode } from './nodes-place.ts';

/** How long logins may be refused, in ms: the promise is 10 s on an idle machine, and other tests run here. */
const LONGEST = 30_000;

const FILES = rounds(200, 2000);
const BYTES = 50_000;

interface Upload {
  readonly id: string;
  readonly filename: string;
}

async function uploads(node: TestNode, { id }: Created): Promise<Upload[]> {
  return ((await node.send('GET', `/directories/${id}/uploads`)).json as { data: Upload[] }).data;
}

test(
  'a directory of many files moves with uploads going on: same ids, same password, no webhook twice, none lost',
  postgresOnly,
  async (t) => {
    await using place = await nodesPlace('a', 'b');
    const [a, b] = [place.node('a'), place.node('b')];
    await using login = await rootSshd(b);
    const directory = await place.directoryOn(a, b);
    const hook = { json: { directory: { webhook_url: a.berth.receiver.url } } };
    assert.equal((await a.send('PATCH', `/directories/${directory.id}`, hook)).status, 200);
    {
      await using connection = await connect({
        port: a.berth.sshd.port,
        username: directory.sftp_username,
        password: directory.sftp_password,
      });
      const session = await sftpSession(connection);
      const names = Array.from({ length: FILES }, (_, i) => `file-${i}`);
      const lane = async (rest: Iterator<string>) => {
        for (let next = rest.next(); !next.done; next = rest.next())
          await session.put(next.value, Buffer.alloc(BYTES, next.value));
      };
      const rest = names.values();
      await Promise.all(Array.from({ length: 8 }, () => lane(rest)));
    }
    const { requests } = a.berth.receiver;
    await until('all are announced', () => requests.length === FILES, 180);
    const before = new Map((await uploads(a, directory)).map(({ id, filename }) => [filename, id]));

    const busy = ['x', 'y', 'z'].map((who) =>
      customer(
        directory,
        who,
        [a, b].map(({ berth }) => ({ port: berth.sshd.port })),
      ),
    );
    const allOver = (count: number): boolean => busy.every(({ complete }) => complete.length > count);
    await until('uploads go on', () => allOver(20));
    const outcome = await moved(a, directory, '--to', 'b', '--ssh', login.command);
    const atMove = Math.max(...busy.map((each) => each.complete.length));
    await until('uploads go on there', () => allOver(atMove + 20));
    await Promise.all(busy.map(({ end }) => end()));
    const [complete, cut] = [busy.flatMap((each) => each.complete), busy.flatMap((each) => each.cut)];
    const longest = Math.round(Math.max(...busy.map((each) => each.longest())));
    t.diagnostic(`locked out for ${outcome.locked_out_ms} ms; a customer was without an upload for ${longest} ms`);
    t.diagnostic(`${complete.length} uploads meanwhile, ${cut.length} cut off`);

    assert.equal(outcome.from, 'a');
    assert.equal(outcome.sftp_port, b.berth.sshd.port);
    assert.ok(outcome.is_live);
    assertWithin(LONGEST, outcome.locked_out_ms ?? Infinity, 'ms locked out');
    assertWithin(LONGEST, longest, 'ms in which a customer could not upload');

    await until('every upload is announced', () => {
      const names = new Set(requests.map((request) => webhookOf(request).filename));
      return complete.every((name) => names.has(name));
    });
    await setTimeout(6000); // a scan would announce now what is new to it
    const announced = Map.groupBy(requests, (request) => webhookOf(request).filename);
    assert.deepEqual(
      [...announced].filter(([, all]) => all.length > 1).map(([name]) => name),
      [],
    );
    assert.deepEqual(
      [...announced.keys()].filter(
        (name) => name.startsWith('live-') && !complete.includes(name) && !cut.includes(name),
      ),
      [],
    );
    const after = new Map((await uploads(b, directory)).map(({ id, filename }) => [filename, id]));
    for (const [name, id] of before) assert.equal(after.get(name), id, name);
    for (const name of [...before.keys(), ...complete]) {
      const text = readFileSync(join(filesOn(b, directory), name));
      const bytes = name.startsWith('live-') ? SIZE : BYTES;
      assert.ok(text.equals(Buffer.alloc(bytes, name)), name);
    }
    const shown = (await b.send('GET', `/directories/${directory.id}`)).json as { data: Record<string, unknown> };
    assert.equal(shown.data['sftp_port'], b.berth.sshd.port);

    assert.ok(await letsIn(b, directory));
    assert.equal(await letsIn(a, directory), false);
    await until('its old home has removed it', () => !existsSync(join(filesOn(a, directory), '..')));
    assert.match((await b.send('GET', `/directories/${directory.id}`)).text, new RegExp(directory.id));
  },
);

test('what moves, and what does not', postgresOnly, async (t) => {
  await using place = await nodesPlace('a', 'b');
  const [a, b] = [place.node('a'), place.node('b')];
  await t.test('links, odd names, holes and modes are as they were, and no link is followed', async () => {
    using ssh = sshTo(b);
    const directory = await place.directoryOn(a, b);
    const files = filesOn(a, directory);
    const script = `
    cd "$0"
    ln -s /etc out; ln -s ../../../.. up; ln -s nothing dangling
    mkdir -p deep/er closed; echo secret > closed/file; chmod 000 closed/file closed
    echo one > one; ln one two; chmod 4755 one
    truncate -s 1G sparse
    printf x > "$(printf 'new\\nline')"; printf y > "$(printf 'latin-\\351')"; printf z > "-e quote'\\" $HOME"
    chown -hR --reference=. .`;
    execFileSync('sh', ['-c', script, files]);
    const contentsOf = (folder: string): string =>
      execFileSync('find', ['.', '-printf', String.raw`%P %y %m %U %G %T@ %s %n %l\0`], {
        cwd: folder,
        encoding: 'latin1',
      })
        .split('\0')
        .toSorted()
        .join('\n');
    const before = contentsOf(files);

    const outcome = await moved(a, directory, '--to', 'b', '--ssh', ssh.command);
    assertWithin(LONGEST, outcome.locked_out_ms ?? Infinity, 'ms locked out');
    const arrived = filesOn(b, directory);
    assert.equal(contentsOf(arrived), before);
    assert.equal(readlinkSync(join(arrived, 'out')), '/etc');
    assert.equal(lstatSync(join(arrived, 'one')).ino, lstatSync(join(arrived, 'two')).ino);
    assert.ok(lstatSync(join(arrived, 'sparse')).blocks < 100);
    assert.deepEqual(readdirSync(join(b.berth.config.jailDir, '.berth', 'arriving')), []);
  });

  await t.test('no link leads rsync out of the directory, not even one that is put there while it reads', async () => {
    using ssh = sshTo(b);
    const directory = await place.directoryOn(a, b);
    const files = filesOn(a, directory);
    symlinkSync('/etc', join(files, 'out'));
    // In place of rsync, what it would do: opens a file below a folder that has become a link.
    const folder = join(a.berth.config.stateDir, 'programs');
    const report = join(folder, 'report');
    mkdirSync(folder);
    const rsync = join(folder, 'rsync');
    writeFileSync(rsync, `#!/bin/sh\ncat '${files}/out/passwd' >> '${report}' 2>&1\nexec /usr/bin/rsync "$@"\n`);
    chmodSync(rsync, 0o755);
    const PATH = `${folder}:${process.env['PATH'] ?? ''}`;
    await moved({ ...a, environment: { ...a.environment, PATH } }, directory, '--to', 'b', '--ssh', ssh.command);
    const attempts = readFileSync(report, 'utf8').trimEnd().split('\n');
    assert.equal(attempts.length, 2);
    for (const attempt of attempts) assert.match(attempt, /Too many levels of symbolic links/);
  });

  await t.test('a file that is overwritten while files are copied arrives with its new content', async () => {
    using ssh = sshTo(b);
    const directory = await place.directoryOn(a, b);
    const file = join(filesOn(a, directory), 'file');
    const noon = 1_700_000_000;
    writeFileSync(file, 'before');
    utimesSync(file, noon, noon + 0.25);
    ssh.pauseAt(3);
    const moving = moved(a, directory, '--to', 'b', '--ssh', ssh.command);
    await ssh.paused();
    // As large, and in the same second.
    writeFileSync(file, 'after!');
    utimesSync(file, noon, noon + 0.75);
    ssh.goOn();
    await moving;
    assert.equal(readFileSync(join(filesOn(b, directory), 'file'), 'utf8'), 'after!');
  });

  await t.test('a directory that cannot move says why, and stays as it is', async () => {
    using wrong = sshTo(a);
    using ssh = sshTo(b);
    const directory = await place.directoryOn(a, b);
    const to = (node: string, command = ssh.command) => ['--to', node, '--ssh', command] as const;
    assert.match(await refusal(a, directory, ...to('nobody')), /this node is called b, not nobody/);
    assert.match(await refusal(a, directory, ...to('b', wrong.command)), /this node is called a, not b/);
    assert.match(await refusal(a, directory, ...to('b', 'false b')), /false: ended with 1/);
    using bare = mkdtempDisposableSync(join(tmpdir(), 'berth-programs-'));
    for (const name of ['sh', 'unshare', 'mount', 'setpriv', 'env', 'cat'])
      symlinkSync(`/bin/${name}`, join(bare.path, name));
    const withoutRsync = { ...a, environment: { ...a.environment, PATH: bare.path } };
    assert.match(await refusal(withoutRsync, directory, ...to('b')), /rsync: not found.*apt-get install rsync/);
    assert.match(await refusal(a, directory, ...to('b', 'b')), /--ssh takes a command and a host/);
    assert.match(await refusal(b, directory, ...to('c')), /at home on a: run this there/);
    assert.match(await refusal(a, directory, '--to', 'nobody'), /no node is called nobody/);
    assert.match(await refusal(b, directory, '--to', 'b', '--it-is-off'), /a is live/);
    assert.match(await refusal(a, { id: 'unknown' }, ...to('b')), /there is no directory/);
    const quota = (of: number | null) => place.db.updateTable('directories').set({ quota_bytes: of }).execute();
    await place.db.updateTable('nodes').set({ quota_obstacle: 'no quotas' }).where('name', '=', 'b').execute();
    await quota(1_000_000);
    assert.match(await refusal(a, directory, ...to('b')), /b cannot enforce its quota: no quotas/);
    await quota(null);
    const inTheWay = join(filesOn(b, directory), '..');
    mkdirSync(inTheWay);
    assert.match(await refusal(a, directory, ...to('b')), /is in the way/);
    rmSync(inTheWay, { recursive: true });
    await b.berth.stop();
    assert.match(await refusal(a, directory, ...to('b')), /b is away: nothing has changed/);
    assert.ok(await letsIn(a, directory));
    await a.berth.stop();
    await b.berth.start();
    assert.match(await refusal(a, directory, ...to('b')), /berth serve does not run here/);
  });
});
