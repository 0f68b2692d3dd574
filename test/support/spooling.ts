/** Uploads on SQLite whose database counts as away when a file says so, and sshd's voice, for more than clients would say. */
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { errorCode } from '../../src/foundation/base/errors.ts';
import { createBackground } from '../../src/foundation/base/background.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { createClockLead } from '../../src/foundation/db/clock-lead.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { DatabaseUnavailable } from '../../src/foundation/db/away.ts';
import type { Database } from '../../src/foundation/db/open.ts';
import { isUsername } from '../../src/rules/directories/host.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { linkLog } from '../../src/machine/sftp/jail.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';
import { startUploads, type Uploads } from '../../src/arrivals/uploads/start.ts';
import { LogKeeper } from '../../src/service/while-away.ts';

/** Its presence says that the database is away. */
export function awayFile(config: Config): string {
  return join(config.jailDir, '.away');
}

export async function startSpooling(config: Config, database: Database): Promise<Pick<Uploads, 'close'>> {
  const paths = pathsOf(config);
  const log = createLog('silent');
  const clock = systemClock();
  const keeper = new LogKeeper(config, log);
  const transferLog = await keeper.open();
  for (const user of readdirSync(config.jailDir).filter(isUsername)) {
    mkdirSync(join(config.jailDir, user, 'dev'), { recursive: true });
    linkLog(paths, user, transferLog);
  }
  const uploads = await startUploads({
    database,
    background: createBackground(log),
    clock,
    clockLead: createClockLead({ database, clock, log }),
    log,
    jailDir: config.jailDir,
    node: '',
    paths,
    tempNames: config.tempNames,
    sync: false,
    firstUid: 3_000_000_000,
    watchLimit: 10,
    addressOf: () => undefined,
    recorded: () => undefined,
    async transact(work) {
      if (existsSync(awayFile(config))) throw new DatabaseUnavailable(new Error('a test has cut it off'));
      return database.db.transaction().execute(async (tx) => (await work(tx)).value);
    },
    isAway: () => existsSync(awayFile(config)),
    transferLog,
  });
  await uploads.adoptSessions();
  void uploads.coverAll();
  return {
    async close() {
      await uploads.close();
      await keeper[Symbol.asyncDispose]();
    },
  };
}

/** Messages in one connection, whose text may have 8192 characters. */
const TOGETHER = 40;

/** As sshd says it of a user's session, in that order. */
export async function say(config: Config, user: string, pid: number, texts: readonly string[]): Promise<void> {
  for (let from = 0; from < texts.length; from += TOGETHER) {
    const frames = texts
      .slice(from, from + TOGETHER)
      .map((text) => `<38>Nov 20 20:50:00 internal-sftp[${pid}]: ${text}\0`);
    while (!(await isSent(join(config.jailDir, user, 'dev', 'log'), frames.join(''))));
  }
}

/**
 * False when the listener had hung up before anything was written, as it does after a silent second, which a busy machine may take.
 * It is sent again then, as syslog(3) does.
 */
async function isSent(socket: string, text: string): Promise<boolean> {
  const said = connect(socket);
  try {
    said.end(text);
    await once(said.resume(), 'close');
    return true;
  } catch (error) {
    if (errorCode(error) === 'EPIPE') return false;
    throw error;
  }
}

/** The lines of a session that uploads `count` files, numbered from `first`, and removes each at once. */
export function passingUploads(username: string, count: number, first = 0): string[] {
  const names = Array.from({ length: count }, (_, index) => `${username}-${first + index}`);
  return [
    `session opened for local user ${username} from [192.0.2.7]`,
    ...names.flatMap((name) => [
      `open "${name}" flags WRITE,CREATE,TRUNCATE mode 0666`,
      `close "${name}" bytes read 0 written 7`,
      `remove name "${name}"`,
    ]),
    `session closed for local user ${username} from [192.0.2.7]`,
  ];
}
