/**
 * The process that `crash-points-*.test.ts` lets die: one operation, by the real modules on a real database and disk.
 *
 *   node crash-child.ts OPERATION STEP PARAMETERS      STEP: die after that many steps; says `finished` when there are fewer
 */
import { dieAfter, took } from './dying.ts';
import { join } from 'node:path';
import { type Clock, DAY, systemClock } from '../../src/foundation/base/clock.ts';
import { readConfig } from '../../src/foundation/base/config.ts';
import { createGround } from '../../src/foundation/context.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { renewPassword, updateAccess, updateAuth } from '../../src/rules/directories/update.ts';
import { hostedById, onlyHome } from '../../src/rules/directories/host.ts';
import { createDirectory } from '../../src/rules/directories/create.ts';
import type { FilesTable } from '../../src/foundation/db/schema.ts';
import { liveDirectory } from '../../src/rules/directories/target.ts';
import { deleteDirectory, finishDeletions } from '../../src/rules/directories/delete.ts';
import type { Fields } from '../../src/rules/directories/fields.ts';
import { createRowRemoval } from '../../src/rules/directories/row-removal.ts';
import { applyPending } from '../../src/rules/directories/pending-apply.ts';
import { addPublicKey, publicKeysOf, removePublicKey } from '../../src/rules/directories/public-keys.ts';
import { markDeleted } from '../../src/rules/accounts/accounts.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { createDirectoryHost, type LocalHost } from '../../src/machine/sftp/host.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';

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
const database = await openDatabase(config.database);
const { account, directory } = parameters;

function ground(clock = systemClock()) {
  return createGround({ config, database, clock, log });
}

function rules(clock: Clock) {
  const socket = join(paths.corner, 'log-1.sock');
  const sockets = { socketsFor: () => [socket] };
  const host = createDirectoryHost({ paths, log, sockets });
  const removal = createRowRemoval({ database, log, host });
  return { ...ground(clock), host: ownOf(host), removal, placement: onlyHome(config) };
}

/** Four processes die side by side, where a berth has one: each leaves the directories of the others, and their marks, alone. */
function ownOf(host: LocalHost): LocalHost {
  const isOwn = ({ id }: { readonly id: string }): boolean => directory === '' || id === directory;
  return {
    ...host,
    isApplied: (row) => isOwn(row) && host.isApplied(row),
    apply: (row) => (isOwn(row) ? host.apply(row) : Promise.reject(new Error('of another process'))),
  };
}

const filesRoot = (username: string): string => join(paths.jail(username), 'files');

async function uploads() {
  const { recording, REPORT } = await import('../support/recording.ts');
  const row = await database.db.selectFrom('directories').selectAll().where('id', '=', directory).executeTakeFirst();
  return {
    ...recording({ database, node: config.node, filesRoot }),
    REPORT,
    place: { id: directory, sftp_username: row?.sftp_username ?? '' },
  };
}

const own = { accountId: account, id: directory };
const target = () => ({
  ...own,
  actor: { keyId: 'key', requestId: 'request', route: 'route' },
});

/** @param mayBeAskedFor as if the session that has uploaded the file were there. */
async function filesByApi(mayBeAskedFor = false) {
  const { directoryFiles } = await import('../../src/arrivals/files/directory-files.ts');
  const { filesContext } = await import('../support/files-context.ts');
  const { recorder, close } = await uploads();
  const context = filesContext(ground(), {
    touch: (...about) => recorder.look(...about),
    missing: (jail, path) => recorder.look(jail, path, 0),
  });
  const deferral = { ...context.deferral, mayBeAskedFor: async () => mayBeAskedFor };
  return { files: directoryFiles({ ...context, deferral }), close };
}

/** Ends the removals that wait in the directory, as when its session has ended. */
async function endRemovals(): Promise<void> {
  const { DeferredRemovals } = await import('../../src/arrivals/files/deferred-removal.ts');
  const { keepRejected } = await import('../../src/arrivals/checks/quarantine.ts');
  const { placesIn } = await import('../../src/arrivals/checks/start.ts');
  const { filesContext } = await import('../support/files-context.ts');
  const context = filesContext(ground(), {
    // Only what is asked for here ends them.
    sessionsOf: () => undefined,
    quarantined: (id, file) => keepRejected(database.reads, id, file, placesIn(paths.quarantine)),
  });
  const removals = new DeferredRemovals(context);
  dieAfter(Number(step));
  await removals.endIn({ id: directory });
  await removals.close();
}

/** What decides about the only file of the directory, which is in check. */
async function checks(mayBeAskedFor = false) {
  const { decisions } = await import('../../src/arrivals/checks/decisions.ts');
  const { createQuarantine, quarantinedOf } = await import('../../src/arrivals/checks/quarantine.ts');
  const { placesIn } = await import('../../src/arrivals/checks/start.ts');
  const { currentTag } = await import('../../src/arrivals/files/content.ts');
  const { filesContext } = await import('../support/files-context.ts');
  const placeOf = placesIn(paths.quarantine);
  const without = filesContext(ground());
  const context = { ...without, deferral: { ...without.deferral, mayBeAskedFor: async () => mayBeAskedFor } };
  const decided = decisions(context, { placeOf, stayed: () => undefined });
  const quarantine = createQuarantine(context, {
    placeOf,
    announce: (of, fileId) => decided.pass(of, fileId, undefined),
    released: () => undefined,
  });
  const place = await liveDirectory(database.reads, target());
  const files = database.reads.selectFrom('files').selectAll().where('directory_id', '=', directory);
  const row = async () => files.executeTakeFirstOrThrow();
  const rejected = async () => {
    const found = await database.reads
      .selectFrom('quarantine')
      .select('id')
      .where('directory_id', '=', directory)
      .executeTakeFirst();
    return found && quarantinedOf(database.reads, directory, found.id);
  };
  const tagOf = ({ path }: Pick<FilesTable, 'path'>): string => currentTag(filesRoot(place.sftp_username), path) ?? '';
  return {
    async pass() {
      const file = await row();
      dieAfter(Number(step));
      await decided.pass(place, file.id, { tag: tagOf(file) });
    },
    async reject(steps = Number(step)) {
      const file = await row();
      dieAfter(steps);
      await decided.reject(place, file, tagOf(file), 'Bad-Signature');
    },
    async decideOnRejected(change: 'release' | 'remove') {
      if ((await files.execute()).length > 0) await this.reject(Infinity);
      const file = await rejected();
      dieAfter(Number(step));
      if (file) await quarantine[change](own, file);
    },
  };
}

async function onlyFile(): Promise<string> {
  const query = database.reads.selectFrom('files').select('id').where('directory_id', '=', directory);
  return (await query.executeTakeFirstOrThrow()).id;
}

const operations: Record<string, () => Promise<void>> = {
  async create() {
    const options = rules(systemClock());
    dieAfter(Number(step));
    await createDirectory(options, { accountId: account }, { name: 'd' });
  },
  async auth() {
    const options = rules(systemClock());
    dieAfter(Number(step));
    await updateAuth(options, own, { auth_mode: 'public_key', public_key: parameters.key });
    await applyPending(options);
  },
  async password() {
    const options = rules(systemClock());
    dieAfter(Number(step));
    await renewPassword(options, own);
    await applyPending(options);
  },
  async 'add key'() {
    const options = rules(systemClock());
    dieAfter(Number(step));
    await addPublicKey(options, own, { public_key: parameters.key });
    await applyPending(options);
  },
  async 'remove key'() {
    const options = rules(systemClock());
    const [newest] = await publicKeysOf(database.reads, directory);
    dieAfter(Number(step));
    await removePublicKey(options, own, newest?.fingerprint ?? '');
    await applyPending(options);
  },
  async access() {
    const options = rules(systemClock());
    dieAfter(Number(step));
    await updateAccess(options, own, JSON.parse(parameters.key) as object as Fields);
    await applyPending(options);
  },
  /** How a deletion begins when the disk is full. */
  async 'block logins'() {
    const options = rules(systemClock());
    const row = await hostedById(database.reads, account, directory);
    dieAfter(Number(step));
    if (row) await options.host.blockLogins(row);
    options.database.reserve.release();
  },
  async delete() {
    const options = rules(systemClock());
    dieAfter(Number(step));
    await deleteDirectory(options, own);
    await options.removal.idle();
    await options.host.drained();
  },
  /** Deletes the directory's account. */
  async 'delete account'() {
    const options = rules(systemClock());
    const row = await database.db
      .selectFrom('directories')
      .select('account_id')
      .where('id', '=', directory)
      .executeTakeFirst();
    dieAfter(Number(step));
    await markDeleted(options, row?.account_id ?? '', 'operator:alice');
    const { signal } = new AbortController();
    await finishDeletions(options, signal);
    await options.removal.idle();
    await options.host.drained();
    await finishDeletions(options, signal);
  },
  async record() {
    const { say, place, REPORT, drained, close } = await uploads();
    dieAfter(Number(step));
    say(place, 1, ...REPORT);
    await drained();
    await close();
  },
  async 'webhook secret'() {
    const { renewSecret } = await import('../../src/rules/directories/webhook.ts');
    const options = rules(systemClock());
    dieAfter(Number(step));
    await renewSecret(options, target(), { secret: parameters.key });
    await renewSecret(options, target(), { activate: true });
  },
  async 'replay failed'() {
    const { replayFailed } = await import('../../src/deliveries/webhooks/replay.ts');
    const { addBatch } = await import('../../src/deliveries/webhooks/start.ts');
    const clock = systemClock();
    dieAfter(Number(step));
    await replayFailed({ database, clock, wake: () => undefined }, target(), { since: 0 });
    for (let added = 1; added > 0;) {
      added = await database.db.transaction().execute(async (tx) => {
        const { destinations } = await addBatch(tx, directory, clock);
        // As if they were delivered at once.
        const done = { state: 'delivered' as const, due_at: null, finished_at: clock.now() };
        if (destinations.length === 0) return 0;
        await tx.updateTable('deliveries').set(done).where('state', '=', 'queued').execute();
        return destinations.length;
      });
    }
  },
  async 'replay one'() {
    const { replay } = await import('../../src/deliveries/webhooks/replay.ts');
    const failed = await database.db
      .selectFrom('deliveries')
      .select('id')
      .where('directory_id', '=', directory)
      .execute();
    dieAfter(Number(step));
    for (const { id } of failed) await replay({ database, clock: systemClock(), wake: () => undefined }, target(), id);
  },
  async deliver() {
    const { Dispatcher } = await import('../../src/deliveries/webhooks/dispatcher.ts');
    const { guardedAgents } = await import('../../src/deliveries/webhooks/destination-guard.ts');
    const { createSender } = await import('../../src/deliveries/webhooks/send.ts');
    const sender = createSender(guardedAgents(['127.0.0.0/8']), '0');
    const sent = Promise.withResolvers<void>();
    dieAfter(Number(step));
    const dispatcher = new Dispatcher({
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
    const { applyRetention } = await import('../../src/arrivals/uploads/retention.ts');
    const { recorder, drained, close } = await uploads();
    const clock = systemClock();
    dieAfter(Number(step));
    const late: Clock = { now: () => clock.now() + 8 * DAY };
    const clockLead = async () => ({ now: late.now(), lead: 0 });
    const options = { database, clock: late, clockLead, log, node: config.node, filesRoot, recorder, drained };
    await applyRetention({ ...options, mustStay: async () => () => false }, new AbortController().signal);
    await drained();
    await close();
  },
  /** The API puts `report.csv` there. */
  async put() {
    const { files, close } = await filesByApi();
    dieAfter(Number(step));
    await files.place(
      target(),
      'new/report.csv',
      (async function* () {
        yield Buffer.from('data');
      })(),
    );
    await close();
  },
  /** Somebody uploads `report.csv` with a link that works once. */
  async 'upload by link'() {
    const { linkUses } = await import('../../src/arrivals/links/use.ts');
    const { files, close } = await filesByApi();
    const uses = linkUses({ database, clock: systemClock() });
    const visit = { token: directory.replaceAll('-', ''), address: '192.0.2.7' };
    await uses.check(visit);
    dieAfter(Number(step));
    await files.place(
      { accountId: account, id: directory },
      'new/report.csv',
      (async function* () {
        yield Buffer.from('data');
      })(),
      { isNew: true, allows: (tag) => tag === undefined },
      { address: visit.address, take: (tx) => uses.take(tx, visit) },
    );
    await close();
  },
  /** The API removes the only upload. */
  async 'remove upload'() {
    const { files, close } = await filesByApi();
    const id = await onlyFile();
    dieAfter(Number(step));
    await files.remove(target(), id);
    await close();
  },
  /** The same while the session that has uploaded it may still ask for it. */
  async 'remove for a session'() {
    const { files, close } = await filesByApi(true);
    const id = await onlyFile();
    dieAfter(Number(step));
    await files.remove(target(), id);
    await close();
  },
  async 'end removal'() {
    const { files, close } = await filesByApi(true);
    await files.remove(target(), await onlyFile());
    await endRemovals();
    await close();
  },
  /** An operator announces the only file, which is partial. */
  async 'announce partial'() {
    const { files, close } = await filesByApi();
    const id = await onlyFile();
    dieAfter(Number(step));
    await files.announcePartial(target(), id);
    await close();
  },
  async 'remove partial'() {
    const { files, close } = await filesByApi();
    const id = await onlyFile();
    dieAfter(Number(step));
    await files.removePartial(target(), id);
    await close();
  },
  pass: async () => (await checks()).pass(),
  reject: async () => (await checks()).reject(),
  'reject for a session': async () => (await checks(true)).reject(),
  async 'end rejected'() {
    await (await checks(true)).reject(Infinity);
    await endRemovals();
  },
  release: async () => (await checks()).decideOnRejected('release'),
  'delete rejected': async () => (await checks()).decideOnRejected('remove'),
};

await operations[operation]?.();
dieAfter(Infinity);
await database.close();
process.stdout.write('finished');
process.exit(0);
