/** A berth whose operations run in processes that crash, and what the next start does about it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { type Clock, SECOND, systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import type { DirectoryRow } from '../../src/foundation/db/schema.ts';
import { updateAccess, updateAuth } from '../../src/rules/directories/update.ts';
import { onlyHome } from '../../src/rules/directories/host.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import { addPublicKey } from '../../src/rules/directories/public-keys.ts';
import { createRowRemoval } from '../../src/rules/directories/row-removal.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { createGround } from '../../src/foundation/context.ts';
import { startService } from '../../src/service/service.ts';
import { type Paths, pathsOf } from '../../src/machine/sftp/paths.ts';
import { enqueue } from '../../src/deliveries/webhooks/outbox.ts';
import { copyEmptyDatabase } from '../support/empty-database.ts';
import { nodeEnvironment } from '../support/node-environment.ts';
import { until } from '../support/poll.ts';
import { recording, REPORT } from '../support/recording.ts';
import { scratch } from '../support/scratch.ts';
import { hostOf } from '../support/sftp-user.ts';
import type { Parameters } from './crash-child.ts';

const CHILD = fileURLToPath(new URL('./crash-child.ts', import.meta.url));
/** More than any operation has. */
const MOST_STEPS = 40;

/** One death: after which step, and what it was. */
export interface Death {
  readonly step: number;
  readonly last: string;
  /** The directory that was made for it. */
  readonly directory: DirectoryRow | undefined;
}

export interface CrashPlace extends AsyncDisposable {
  readonly config: Config;
  readonly paths: Paths;
  readonly database: Database;
  /** Runs the operation in processes that die after their first step, their second, and so on, until one has no more. */
  deaths(operation: string, options: DeathOptions): Promise<Death[]>;
  /** Starts the service and stops it when all is done; its clock is 30 s ahead, so that leases have ended. */
  nextStart(isDone?: () => Promise<boolean>): Promise<void>;
  /** The user's credential files on the disk. */
  credentials(username: string): string[];
  /** Whether jail, credentials and limit are exactly what the row says. */
  isApplied(directory: DirectoryRow): boolean;
  /** Makes a directory with the place's webhook URL. */
  directory(): Promise<DirectoryRow>;
  /** Lets these keys in, and no password. */
  withKeys(id: string, keys: readonly string[]): Promise<void>;
  suspend(id: string): Promise<void>;
  row(id: string): Promise<DirectoryRow | undefined>;
  /** Puts a webhook of that directory into the outbox. */
  enqueue(directory: DirectoryRow): Promise<void>;
  /** Does the operation in a process that lives on. */
  run(operation: string, directory: DirectoryRow): Promise<void>;
  /** Records `report.csv`. */
  record(directory: DirectoryRow): Promise<void>;
}

export interface DeathOptions {
  readonly key?: string;
  /** Whether each process gets a directory of its own; true when left out. */
  readonly onNew?: boolean;
  /** How many processes run side by side; 4 when left out. */
  readonly together?: number;
  /** Makes the directory ready before the operation. */
  readonly before?: (directory: DirectoryRow) => Promise<void>;
  readonly after?: (directory: DirectoryRow) => Promise<void>;
}

/** @param settings of the berth, beside those of the place. */
export async function crashPlace(
  webhookUrl: string | null = null,
  settings: Record<string, string> = {},
): Promise<CrashPlace> {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch({ BERTH_WEBHOOK_ALLOW: '127.0.0.0/8', BERTH_LOG_LEVEL: 'silent', ...settings }));
  const { config } = place;
  const paths = pathsOf(config);
  copyEmptyDatabase(config);
  const database = parts.adopt(await openDatabase(config.database), (opened) => opened.close());
  const host = parts.use(hostOf(paths));
  writeFileSync(join(paths.corner, 'log-1.sock'), ''); // stands for the socket of a service that has died
  const clock = systemClock();
  const log = createLog('silent');
  const removal = createRowRemoval({ database, log, host });
  parts.defer(() => removal.close());
  const rules = { ...createGround({ config, database, clock, log }), host, removal, placement: onlyHome(config) };
  const account = await createAccount(rules, { name: 'Test', plan: 'business' });

  /** Its webhooks go where all of this place do. */
  async function newDirectory(name: string): Promise<DirectoryRow> {
    const { directory } = await createDirectory(rules, { accountId: account.id }, { name });
    await database.db
      .updateTable('directories')
      .set({ webhook_url: webhookUrl })
      .where('id', '=', directory.id)
      .execute();
    return { ...directory, webhook_url: webhookUrl };
  }

  async function run(operation: string, step: number, parameters: Parameters): Promise<string> {
    const child = spawn(process.execPath, [CHILD, operation, String(step), JSON.stringify(parameters)], {
      // Dozens of processes read the same sources.
      env: { ...nodeEnvironment, ...place.environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [output, [code, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    if (signal !== 'SIGKILL' && output !== 'finished') throw new Error(`${operation} ended with ${String(code)}`);
    return output;
  }

  const row = (id: string): Promise<DirectoryRow | undefined> =>
    database.db.selectFrom('directories').selectAll().where('id', '=', id).executeTakeFirst();
  const owned = parts.move();
  return {
    config,
    paths,
    database,
    row,
    async deaths(operation, { key = '', onNew = true, together = 4, before, after }) {
      const found: Death[] = [];
      const die = async (step: number): Promise<boolean> => {
        const directory = onNew ? await newDirectory(`d${step}`) : undefined;
        const { id = '', sftp_username: username = '' } = directory ?? {};
        if (directory) await before?.(directory);
        const last = await run(operation, step, { account: account.id, directory: id, key });
        if (directory) await after?.(directory);
        if (last === 'finished') return false;
        found.push({ step, last: last.replaceAll(username || /d-\w{8}/g, 'NAME'), directory });
        return true;
      };
      for (let step = 1; step < MOST_STEPS; step += together) {
        const steps = Array.from({ length: together }, (_, index) => die(step + index));
        if ((await Promise.all(steps)).includes(false)) return found.sort((a, b) => a.step - b.step);
      }
      throw new Error(`${operation} has more than ${MOST_STEPS} steps`);
    },
    async nextStart(isDone = async () => true) {
      const ahead: Clock = { now: () => clock.now() + 30 * SECOND };
      const service = await startService(config, { log: createLog(config.logLevel), clock: ahead });
      await service.covered;
      await until('nothing is left to do', async () => {
        const { db } = database;
        const marks = await db.selectFrom('unapplied').select('directory_id').execute();
        const open = await db
          .selectFrom('deliveries')
          .select('id')
          .where('state', 'not in', ['delivered', 'failed'])
          .execute();
        return marks.length === 0 && open.length === 0 && readdirSync(paths.trash).length === 0 && (await isDone());
      });
      await service.close();
    },
    credentials(username) {
      return [
        join(paths.userdb, `${username}.user`),
        join(paths.userdb, `${username}.user-privileged`),
        join(paths.authorizedKeys, username),
        join(paths.limits, username),
      ].filter((file) => existsSync(file) && readFileSync(file).length > 0);
    },
    directory: () => newDirectory('d'),
    async withKeys(id, keys) {
      for (const public_key of keys) await addPublicKey(rules, { accountId: account.id, id }, { public_key });
      await updateAuth(rules, { accountId: account.id, id }, { auth_mode: 'public_key' });
    },
    async suspend(id) {
      await updateAccess(rules, { accountId: account.id, id }, { suspended: true });
    },
    isApplied: (directory) => host.isApplied(directory),
    async enqueue(directory) {
      const now = clock.now();
      const event = { directory, uploadId: null, filename: 'f', sizeBytes: 1, uploadedAt: now };
      await database.db.transaction().execute((tx) => enqueue(tx, event));
    },
    async run(operation, { id }) {
      await run(operation, Infinity, { account: account.id, directory: id, key: '' });
    },
    async record(directory) {
      const filesRoot = (username: string): string => join(paths.jail(username), 'files');
      await using recorder = recording({ database, node: config.node, filesRoot });
      recorder.say(directory, 1, ...REPORT);
      await recorder.drained();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
