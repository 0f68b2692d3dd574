/**
 * docs/api.md tells the truth: its requests are made in their order, and each answer is the one that the page shows, but for
 * ids, times and secrets. `BERTH_WRITE=1` writes the answers into the page instead.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createKey } from '../../src/rules/api-keys/api-keys.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Role } from '../../src/foundation/db/schema.ts';
import { issueKey, startBerth, type TestBerth } from '../support/berth.ts';
import { type Documented, documentedIn, masked, abbreviated, valueAt, withAnswers } from '../support/documented.ts';
import { until } from '../support/poll.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const PAGE = fileURLToPath(new URL('../../docs/api.md', import.meta.url));
const ASKPASS = fileURLToPath(new URL('../support/askpass', import.meta.url));
const IS_WRITING = process.env['BERTH_WRITE'] !== undefined;
const HOOK = 'https://example.com/hooks/berth';

/** How long a documented answer may take to come true, in s: an upload is recorded a moment after its client has left. */
const TIMEOUT_SECONDS = 90;

test('each request of docs/api.md has the answer that is shown', async () => {
  using place = scratch({
    BERTH_SFTP_HOST: 'sftp.example.com',
    BERTH_API_URL: 'https://sftp.example.com:8443',
    BERTH_WEBHOOK_RETRY_DELAYS: '1,2,3',
  });
  let status = 204;
  const respond = (response: ServerResponse): void => void response.writeHead(status).end();
  await using berth = await startBerth(place, { rateLimit: 120, receiver: { respond } });
  const shell = await shellFor(place, berth);
  const events: Record<string, () => void | Promise<void>> = {
    'the receiver is down': () => void (status = 503),
    'the receiver is up again': () => void (status = 204),
    'berth has given up': () => until('four attempts have failed', () => isGivenUp(berth)),
  };
  const page = readFileSync(PAGE, 'utf8');
  const answers: (string | undefined)[] = [];
  for (const documented of documentedIn(page)) {
    if (documented.when !== undefined) await (events[documented.when] ?? assert.fail(documented.when))();
    answers.push(await asked(shell, documented));
  }
  assert.ok(answers.length > 9, 'the page has requests');
  if (IS_WRITING) writeFileSync(PAGE, withAnswers(page, answers));
});

const statusOf = (answer: string): string | undefined => answer.split(/\r?\n/)[0];

interface Shell {
  /** Runs it in bash, and gives back what it printed. */
  run(commands: string): Promise<string>;
  keep(name: string, value: string): void;
}

/** The answer as the page shows it. */
async function asked(shell: Shell, { commands, answer, kept, only }: Documented): Promise<string | undefined> {
  // The reader's own key and address.
  if (commands.startsWith('export API=')) return undefined;
  const isRead = !/--json|-X|-T|sftp/.test(commands);
  // The page does not say yet what to wait for.
  if (IS_WRITING && /uploads|deliveries/.test(commands)) await wait(2000);
  let output = await shell.run(commands);
  if (answer === undefined) return undefined;
  const isRight = (): boolean =>
    IS_WRITING ? statusOf(output) === statusOf(answer) : masked(abbreviated(output, only)) === masked(answer);
  const again = async (): Promise<boolean> => {
    if (isRight()) return true;
    // Slowly: requests are counted.
    await wait(1000);
    output = await shell.run(commands);
    return isRight();
  };
  if (isRead) await until(commands, again, TIMEOUT_SECONDS).catch(() => undefined);
  assert.equal(statusOf(output), statusOf(answer), commands);
  if (!IS_WRITING) assert.equal(masked(abbreviated(output, only)), masked(answer), commands);
  for (const [name, path] of kept) shell.keep(name, valueAt(output, path));
  return abbreviated(output, only);
}

async function shellFor(place: Scratch, berth: TestBerth): Promise<Shell> {
  const { config, sshd, receiver } = berth;
  const folder = join(place.dir, 'reader');
  await mkdir(join(folder, 'bin'), { recursive: true });
  writeFileSync(join(folder, '.curlrc'), `silent\nshow-error\ninclude\nhttp1.1\ncacert = ${config.tls.cert}\n`);
  const options = '-F/dev/null -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oLogLevel=ERROR';
  // The page's host stands for this one.
  const sftp = `#!/bin/sh\nexec /usr/bin/sftp ${options} -P ${sshd.port} "\${3%@*}@127.0.0.1"\n`;
  writeFileSync(join(folder, 'bin/sftp'), sftp, { mode: 0o755 });
  const variables: Record<string, string> = {
    PATH: `${join(folder, 'bin')}:${process.env['PATH']}`,
    CURL_HOME: folder,
    SSH_ASKPASS: ASKPASS,
    SSH_ASKPASS_REQUIRE: 'force',
    API: `https://127.0.0.1:${berth.service().port}/api/v1`,
    ...(await keys(berth)),
  };
  const seen = (text: string): string =>
    text
      .replace(/^HTTP\/1.1 100 .*\r\n\r\n/, '')
      .replaceAll(receiver.url, HOOK)
      .replaceAll(new RegExp(`(?<=:)${sshd.port}\\b`, 'g'), '2222');
  return {
    async run(commands) {
      const script = commands.replaceAll(HOOK, receiver.url);
      const bash = promisify(execFile)('bash', ['--norc', '-euo', 'pipefail', '-c', script], {
        cwd: folder,
        env: variables,
      });
      return seen((await bash).stdout);
    },
    keep(name, value) {
      variables[name] = value;
      if (name === 'PASSWORD') variables['SECRET'] = value;
    },
  };
}

async function isGivenUp({ config }: TestBerth): Promise<boolean> {
  const database = await openDatabase(config.database);
  const failed = await database.db
    .selectFrom('deliveries')
    .select('id')
    .where('state', '=', 'failed')
    .executeTakeFirst();
  await database.close();
  return failed !== undefined;
}

/** Two keys of one account, and one of another. */
async function keys({ config }: TestBerth): Promise<Record<'KEY' | 'MEMBER_KEY' | 'OTHER_KEY', string>> {
  const database = await openDatabase(config.database);
  const issuer = { database, clock: systemClock(), config };
  const { id: accountId } = await createAccount(issuer, { name: 'Docs', plan: 'business' });
  const issue = async (role: Role): Promise<string> =>
    (await createKey(issuer, { accountId }, { role, name: role })).key;
  const issued = { KEY: await issue('admin'), MEMBER_KEY: await issue('member') };
  await database.close();
  return { ...issued, OTHER_KEY: await issueKey(config) };
}
