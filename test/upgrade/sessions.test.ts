/**
 * An upgrade in place from a berth without a journal, while sshd and its sessions go on: open handles, files under temporary names, and
 * what was kept while PostgreSQL was away. What its last `serve` left is unpacked; the sessions begin before this one starts.
 */
import assert from 'node:assert/strict';
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { processesFrom, servesSftp } from '../../src/arrivals/uploads/processes.ts';
import { webhookOf } from '../support/berth.ts';
import { byHand } from '../support/by-hand.ts';
import { runCommand } from '../support/command-line.ts';
import { until } from '../support/poll.ts';
import { sqliteOnly } from '../support/postgres.ts';
import { receiver } from '../support/receiver.ts';
import { scratch } from '../support/scratch.ts';
import { connect } from '../support/sftp-client.ts';
import { sftpSession } from '../support/sftp-session.ts';
import { runSshd } from '../support/sshd.ts';
import { unpack } from './unpack.ts';

/** Longer than a stable file takes to be found. */
const REST_MS = 4000;

/** Users' records name the folder in which the jails were made. */
function admit({ stateDir, jailDir }: Config): void {
  const folder = join(stateDir, 'userdb');
  for (const name of readdirSync(folder).filter((each) => each.endsWith('.user'))) {
    const path = join(folder, name);
    const record = JSON.parse(readFileSync(path, 'utf8')) as { homeDirectory: string };
    writeFileSync(path, JSON.stringify({ ...record, homeDirectory: join(jailDir, basename(record.homeDirectory)) }));
  }
}

/** The process that serves the only session of that directory. */
async function pidOf(config: Config, username: string): Promise<number> {
  const { uid } = lstatSync(join(config.jailDir, username, 'files'));
  const found = (await processesFrom(uid)).find((each) => each.uid === uid && servesSftp(each.pid));
  return found?.pid ?? assert.fail('it has no session');
}

/** Lines of sshd as a berth of that time kept them while PostgreSQL was away. */
function spool(config: Config, username: string, pid: number, lines: readonly string[]): void {
  const folder = join(config.stateDir, 'spool');
  mkdirSync(folder, { mode: 0o700 });
  const kept = lines.map((text, index) => {
    const name = /^(?:open|close) "([^"]*)"/.exec(text)?.[1];
    const stats = name === undefined ? undefined : lstatSync(join(config.jailDir, username, 'files', name), NO_THROW);
    const seen = stats ? { ino: stats.ino, size: stats.size, mtimeMs: stats.mtimeMs } : null;
    const at = Date.now() * 1000 - lines.length + index;
    return JSON.stringify({ at, pid, text, address: '127.0.0.1', ...(name !== undefined && { seen }) });
  });
  writeFileSync(join(folder, username), `\n${kept.join('\n')}\n`, { mode: 0o600 });
}

const NO_THROW = { throwIfNoEntry: false };
const OPEN = 'flags WRITE,CREATE,TRUNCATE mode 0666';

test(
  'what is closed is announced once, what is cut off never is, and what closed unheard is listed as partial',
  sqliteOnly,
  async () => {
    using place = scratch();
    await using hook = await receiver();
    const { kept, config } = await unpack(place, '56d55a6', hook.url);
    const [byPassword, , , unreached] = kept.directories;
    assert.ok(byPassword && unreached);
    admit(config);
    await prepareSshd(config, createLog('silent'));
    await using _sshd = await runSshd(config);
    const { port } = config.sftp;
    await using connection = await connect({ port, ...byPassword });
    await using other = await connect({ port, ...unreached });
    const session = await sftpSession(connection);
    const spooled = await sftpSession(other);

    // Nobody listens.
    const open = await session.open('open', 'w');
    await session.write(open, 'first');
    const upper = await session.open('upper.part', 'w');
    await session.write(upper, 'upper');
    await session.put('unheard', 'closed while nobody listened');
    const pid = await pidOf(config, byPassword.username);
    byHand(config, `update files set session_pid = ${pid} where state = 'waiting'`);
    const dying = await connect({ port, ...byPassword });
    const cut = await sftpSession(dying);
    await cut.write(await cut.open('stump', 'w'), 'a part');
    dying.drop();

    await spooled.put('spooled', 'spooled');
    const still = await spooled.open('still', 'w');
    await spooled.write(still, 'still ');
    spool(config, unreached.username, await pidOf(config, unreached.username), [
      `session opened for local user ${unreached.username} from [127.0.0.1]`,
      `open "spooled" ${OPEN}`,
      'close "spooled" bytes read 0 written 7',
      `open "removed" ${OPEN}`,
      'close "removed" bytes read 0 written 9',
      'remove name "removed"',
      `open "still" ${OPEN}`,
    ]);

    await using parts = new AsyncDisposableStack();
    const service = parts.adopt(await startService(config, { log: createLog('error') }), (made) => made.close());
    await session.write(open, ' second', 5);
    await session.close(open);
    await session.close(upper);
    await session.rename('upper.part', 'upper');
    await session.rename('waits.part', 'waited');
    await session.put('after', 'after');
    await spooled.write(still, 'open', 6);
    await spooled.close(still);
    await service.covered;
    const due = ['after 5', 'late 4', 'open 12', 'removed 9', 'spooled 7', 'still 10', 'upper 5', 'waited 5'];
    await until('they are announced', () => hook.requests.length >= due.length);
    await wait(REST_MS);
    const announced = hook.requests.map(webhookOf).map(({ filename, size_bytes }) => `${filename} ${size_bytes}`);
    assert.deepEqual(announced.toSorted(), due);

    const { stdout, stderr } = await runCommand(place.environment, 'partial', 'list', '--json');
    assert.notEqual(stdout, '', stderr);
    const partial = (JSON.parse(stdout) as { filename: string; size_bytes: number }[]).map((file) => file.filename);
    assert.deepEqual(partial.toSorted(), ['half', 'stump', 'unheard']);
    assert.ok(!existsSync(join(config.stateDir, 'spool')), 'nothing is left to adopt');
  },
);

test('a start that is cut off before all jails are linked leaves the doubt to the next one', sqliteOnly, async () => {
  using place = scratch();
  await using hook = await receiver();
  const { kept, config } = await unpack(place, '56d55a6', hook.url);
  const { username } = kept.directories[0] ?? assert.fail();
  writeFileSync(join(config.jailDir, username, 'files', 'stump'), 'a part');
  await prepareSshd(config, createLog('silent'));
  // As it was when the process died: the journal is there, and when it began is not noted.
  mkdirSync(join(config.stateDir, 'journal'), { mode: 0o700 });
  writeFileSync(join(config.stateDir, 'journal.begun'), '');
  const begun = (): string => readFileSync(join(config.stateDir, 'journal.begun'), 'utf8');
  {
    await using parts = new AsyncDisposableStack();
    const service = parts.adopt(await startService(config, { log: createLog('error') }), (made) => made.close());
    await service.covered;
    assert.notEqual(begun(), '');
  }
  // Its change time identifies it, also when it is found later.
  const first = begun();
  byHand(config, `delete from files where path = cast('stump' as blob)`);
  await using parts = new AsyncDisposableStack();
  const service = parts.adopt(await startService(config, { log: createLog('error') }), (made) => made.close());
  await service.covered;
  await wait(REST_MS);
  assert.equal(begun(), first);
  assert.ok(!hook.requests.some((request) => webhookOf(request).filename === 'stump'));
  rmSync(join(config.jailDir, username, 'files', 'stump'));
});
