/** `berth host-key …`: shows the keys by which customers recognize this server, and replaces them without alarming clients. */
import { Command, Option } from 'commander';
import type { Micros } from '../foundation/base/clock.ts';
import type { Config } from '../foundation/base/config.ts';
import { some } from '../operating/doctor/finding.ts';
import { OperatorError } from '../foundation/base/errors.ts';
import { createLog } from '../foundation/base/log.ts';
import { unusedSince } from '../operating/reports/queries.ts';
import {
  beginRotation,
  cancelRotation,
  finishRotation,
  lockRotation,
  type NextKey,
  nextKeys,
  OFFERED_FOR,
} from '../machine/sftp/host-key-rotation.ts';
import { KEY_TYPES, type KeyType } from '../machine/sftp/host-keys.ts';
import { type Paths, pathsOf } from '../machine/sftp/paths.ts';
import { type PublicHostKey, publicHostKeys } from '../machine/sftp/public-host-keys.ts';
import { reloadSshd } from '../machine/sftp/sshd-listener.ts';
import { prepareSshd } from '../machine/sftp/sshd.ts';
import { shortTime } from '../foundation/base/text.ts';
import { withDatabase } from './database.ts';
import type { Invocation } from './invocation.ts';
import { fullTime, printRows, type RowStyle } from './rows.ts';

const HELP = `
A rotation has two steps. The first makes new keys, which sshd offers beside the old ones from then on: OpenSSH clients add
them to their known_hosts automatically at their next login (UpdateHostKeys). The second step, a month later, removes the
old keys. Other clients ask their users once: announce the new fingerprints before it. Sessions are not interrupted.

Examples:
  berth host-key list                      fingerprints, and lines for known_hosts with --json
  berth host-key rotate                    the first step
  berth host-key rotate --finish           the second step, 30 days later
  berth host-key rotate --finish --yes     the second step now, because an old key has leaked`;

interface Row extends PublicHostKey {
  readonly state: 'in use' | 'next';
  readonly offered_since: Micros | null;
}

const STYLE: RowStyle<Row> = {
  columns: {
    STATE: ({ state }) => state,
    TYPE: ({ type }) => type,
    'OFFERED SINCE': ({ offered_since }) => shortTime(offered_since),
    FINGERPRINT: ({ fingerprint }) => fingerprint,
  },
  json: ({ offered_since, ...row }) => ({ ...row, offered_since: fullTime(offered_since) }),
};

interface RotateOptions {
  readonly type?: KeyType;
  readonly finish?: true;
  readonly cancel?: true;
  readonly yes?: true;
  readonly json?: true;
}

export function hostKeyCommand(invocation: Invocation): Command {
  const { config, print } = invocation;
  const command = new Command('host-key')
    .description("sshd's host keys, and new ones that clients learn automatically")
    .addHelpText('after', HELP);

  command
    .command('list')
    .description('List the keys that sshd presents')
    .option('--json', 'print JSON, with lines for known_hosts and SSHFP records')
    .addHelpText('after', '\nExample:\n  berth host-key list')
    .action(async ({ json }: { readonly json?: true }) => printRows(await rowsOf(config()), STYLE, { print, json }));

  command
    .command('rotate')
    .description('Offer new keys beside the old ones, or with --finish remove the old ones')
    .addOption(
      new Option('--type <type>', 'only a key of this type').choices(KEY_TYPES).conflicts(['finish', 'cancel']),
    )
    .option('--finish', 'replace the old keys with the new ones')
    .addOption(new Option('--cancel', 'remove the new keys again').conflicts('finish'))
    .option('--yes', 'finish even if the new keys have been offered for less than 30 days')
    .option('--json', 'print JSON: the keys that sshd presents afterwards')
    .addHelpText('after', HELP)
    .action((options: RotateOptions) => rotate(invocation, options));

  return command;
}

async function rotate(invocation: Invocation, options: RotateOptions): Promise<void> {
  const { print, stderr } = invocation;
  const config = invocation.config();
  const paths = pathsOf(config);
  const log = createLog(config.logLevel, { write: stderr });
  await prepareSshd(config, log);
  using _lock = lockRotation(paths.hostKeys);
  const before = nextKeys(paths.hostKeys);
  const done = await takeStep(invocation, config, options, before);
  await prepareSshd(config, log);
  const reloaded = await reload(paths, config.sftp.port);
  if (options.json) return printRows(await rowsOf(config), STYLE, { print, json: true });
  print(`${done}. ${reloaded}.`);
  printRows(await rowsOf(config), STYLE, { print, json: false });
}

/** @returns what was done, as a sentence without its full stop. */
async function takeStep(
  invocation: Invocation,
  config: Config,
  { type, finish, cancel, yes }: RotateOptions,
  before: readonly NextKey[],
): Promise<string> {
  const folder = pathsOf(config).hostKeys;
  if (cancel) {
    await cancelRotation(folder);
    return before.length > 0 ? 'The new keys are removed, the old ones stay' : 'No rotation is in progress';
  }
  if (!finish) {
    await beginRotation(folder, type === undefined ? KEY_TYPES : [type]);
    const until = shortTime(latest(nextKeys(folder)) + OFFERED_FOR);
    return `New keys are offered beside the old ones: OpenSSH clients learn them at their next login. Finish with berth host-key rotate --finish from ${until} on`;
  }
  // Not an error: after an interrupted --finish, sshd may still have to reload.
  if (before.length === 0) return 'No rotation is in progress';
  if (!yes) await refuseEarly(invocation, config, latest(before));
  await finishRotation(folder);
  return 'The new keys have replaced the old ones';
}

/** @throws {OperatorError} while clients may not have learnt the new keys. */
async function refuseEarly({ clock }: Invocation, config: Config, since: Micros): Promise<void> {
  const ready = since + OFFERED_FOR;
  if (clock.now() >= ready) return;
  const unused = await withDatabase(config, (database) => unusedSince(database, since));
  const whom = unused.length === 0 ? 'everybody has logged in since' : `nobody has logged in since to ${some(unused)}`;
  throw new OperatorError(
    `the new keys have been offered only since ${shortTime(since)}, and ${whom}. Clients that have not learnt them will refuse to connect: wait until ${shortTime(ready)}, or add --yes`,
  );
}

function latest(keys: readonly NextKey[]): Micros {
  return Math.max(...keys.map(({ since }) => since));
}

async function reload(paths: Paths, port: number): Promise<string> {
  const reloaded = await reloadSshd(paths, port);
  if (!reloaded) return "berth's sshd does not run here: it reads its keys at its next start";
  const { pid, isDone } = reloaded;
  return isDone
    ? `sshd (process ${pid}) has read its keys again; sessions go on`
    : `sshd (process ${pid}) does not listen again yet: look at its log, with journalctl -u berth-sshd`;
}

async function rowsOf(config: Config): Promise<Row[]> {
  const folder = pathsOf(config).hostKeys;
  const { inUse, next } = await publicHostKeys(folder, config.sftp);
  const since = new Map(nextKeys(folder).map((key) => [key.type as string, key.since]));
  const typeOf = ({ type }: PublicHostKey): string => /ed25519|ecdsa|rsa/.exec(type)?.[0] ?? '';
  return [
    ...inUse.map((key): Row => ({ state: 'in use', ...key, offered_since: null })),
    ...next.map((key): Row => ({ state: 'next', ...key, offered_since: since.get(typeOf(key)) ?? null })),
  ];
}
