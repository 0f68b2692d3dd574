/**
 * The process that `crash-points.test.ts` lets die: one operation, by the real modules on a real database and disk.
 *
 *   node crash-child.ts OPERATION STEP PARAMETERS      STEP: die after that many steps; says `finished` when there are fewer
 */
import { dieAfter, took } from './dying.ts';
import { join } from 'node:path';
import { type Clock, DAY, systemClock } from '../../src/clock.ts';
import { readConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/db/open.ts';
import { createDirectory } from '../../src/directories/create.ts';
import { deleteDirectory } from '../../src/directories/delete.ts';
import { createRowRemoval } from '../../src/directories/row-removal.ts';
import { updateAuth } from '../../src/directories/update.ts';
import { createLog } from '../../src/log.ts';
import { createDirectoryHost } from '../../src/sftp/host.ts';
import { pathsOf } from '../../src/sftp/paths.ts';

/** What an operation is about; each uses some. */
export interface Parameters {
  readonly account: string;
  readonly directory: string;
  readonly key: string;
}

const [operation = '', step = '', given = '{}'] = process.argv.slice(2);
const parameters = JSON.parse(given) as Parameters;
const config = readConfig(process.env);
const paths = pathsOf(config);
const log = createLog('silent');
const database = await openDatabase(config.databaseFile);
const { account, directory } = parameters;

function rules(clock: Clock) {
  const socket = join(paths.corner, 'log-1.sock');
  const sockets = { currentSocket: () => socket, moreSockets: () => Promise.resolve(socket) };
  const host = createDirectoryHost({ paths, log, sockets, onRemoved: () => undefined });
  const removal = createRowRemoval({ database, log });
  return { database, clock, host, removal, sftp: { host: 'sftp.example.com', port: 22 } };
}

async function recorder() {
  const { createRecorder } = await import('../../src/uploads/record.ts');
  const { Vanished } = await import('../../src/uploads/vanished.ts');
  return createRecorder({
    database,
    log,
    filesRoot: (username) => join(paths.jail(username), 'files'),
    isTemporary: () => false,
    isWritten: () => false,
    vanished: new Vanished(),
    wake: () => undefined,
    rescan: () => undefined,
    caughtUp: async () => undefined,
  });
}

const operations: Record<string, () => Promise<void>> = {
  async create() {
    const deps = rules(systemClock());
    dieAfter(Number(step));
    await createDirectory(deps, account, { name: 'd' });
  },
  async auth() {
    const deps = rules(systemClock());
    dieAfter(Number(step));
    await updateAuth(deps, account, directory, { auth_mode: 'public_key', public_key: parameters.key });
  },
  async delete() {
    const deps = rules(systemClock());
    dieAfter(Number(step));
    await deleteDirectory(deps, account, directory);
    await deps.removal.idle();
    await deps.host.settled();
  },
  async record() {
    const uploads = await recorder();
    dieAfter(Number(step));
    const about = { directoryId: directory, path: Buffer.from('report.csv'), at: systemClock().now() };
    uploads.push([{ kind: 'closed', ...about, pid: 1, size: undefined }]);
    await uploads.drained();
    await uploads.close();
  },
  async deliver() {
    const { startDispatcher } = await import('../../src/webhooks/deliver.ts');
    const { guardedAgents } = await import('../../src/webhooks/destination-guard.ts');
    const { createSender } = await import('../../src/webhooks/send.ts');
    const sender = createSender(guardedAgents(['127.0.0.0/8']), '0');
    const sent = Promise.withResolvers<void>();
    dieAfter(Number(step));
    const dispatcher = startDispatcher({
      database,
      clock: systemClock(),
      log,
      retryDelays: [1, 1, 1],
      async send(...attempt) {
        const answer = await sender.send(...attempt);
        took('the receiver has answered');
        sent.resolve();
        return answer;
      },
    });
    await sent.promise;
    await dispatcher.close();
  },
  async retention() {
    const { startRetention } = await import('../../src/uploads/retention.ts');
    const uploads = await recorder();
    const clock = systemClock();
    dieAfter(Number(step));
    const retention = startRetention({
      reads: database.reads,
      clock: { now: () => clock.now() + 8 * DAY },
      log,
      filesRoot: (username) => join(paths.jail(username), 'files'),
      isWritten: () => false,
      emit: uploads.push,
      suspect: () => undefined,
      drained: uploads.drained,
    });
    await retention.check();
    await uploads.close();
  },
};

await operations[operation]?.();
dieAfter(Infinity);
await database.close();
process.stdout.write('finished');
process.exit(0);
