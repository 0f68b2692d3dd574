/**
 * The commands for this machine: `berth serve`, `prepare`, `doctor`, `listen` and `clock`. Large parts are imported only when they run,
 * so that other commands start faster.
 */
import { Command, InvalidArgumentError } from 'commander';
import type { Invocation } from './invocation.ts';
import { existsSync } from 'node:fs';
import { once } from 'node:events';
import type { ListenArguments } from '../interfaces/listen/listen.ts';
import { integer } from './options.ts';
import { DAY, formatMicros } from '../foundation/base/clock.ts';
import { type Config, unknownSettings } from '../foundation/base/config.ts';
import { ignoredLines, SETTINGS } from '../foundation/base/settings-file.ts';
import { confirmClock } from '../foundation/db/clock-lead.ts';
import { withDatabase } from './database.ts';
import { errorMessage, OperatorError } from '../foundation/base/errors.ts';

export function serveCommand({ config, environment }: Invocation): Command {
  return new Command('serve')
    .description('Run the service: API, uploads and webhooks; sshd is a separate process')
    .addHelpText(
      'after',
      `
Configure it by environment variables (see /etc/berth/berth.env). SIGTERM ends it after the requests in flight; SIGHUP makes
it read the certificate again. It first finishes an interrupted berth restore.

Examples:
  systemctl start berth    when berth is installed
  scripts/start            in a checkout: installs what is missing, and runs sshd and berth serve`,
    )
    .action(async () => {
      const { finishRestore } = await import('../operating/backup/pending-restore.ts');
      const { serve } = await import('../service/serve.ts');
      await serve(finishRestore(config()), environment);
    });
}

export function prepareCommand(invocation: Invocation): Command {
  const { environment } = invocation;
  return new Command('prepare')
    .description(
      'Check this machine, write what sshd reads, repair credentials after a power cut; may be repeated while sshd runs',
    )
    .option('--accept-disk', 'accept the disk at BERTH_JAIL_DIR; files that are not on it count as removed')
    .option('--yes', 'accept it without a question')
    .addHelpText(
      'after',
      `
It refuses when BERTH_JAIL_DIR is not on the disk of the jails: when that is not mounted, for example. --accept-disk
accepts the disk that is there: an older one, or an empty one after a restore without the customers' files. It first says how
many files are not on it, and asks.

Examples:
  berth prepare && systemctl restart berth-sshd
  berth prepare --accept-disk && systemctl start berth-sshd berth`,
    )
    .action(async ({ acceptDisk: accept = false, yes }: { readonly acceptDisk?: boolean; readonly yes?: true }) => {
      const { finishRestore } = await import('../operating/backup/pending-restore.ts');
      const { openLog } = await import('../foundation/base/log.ts');
      const { prepare } = await import('../service/prepare.ts');
      const { noteSettings, sshdSettings } = await import('../service/prepare.ts');
      const { warnOfIgnored } = await import('../service/serve.ts');
      const { config, problems } = sshdSettings(environment);
      const log = openLog(config, environment);
      for (const problem of problems) log.error(problem);
      warnOfIgnored(environment, log);
      finishRestore(config);
      if (accept) await askAboutDisk(invocation, config, { ...(yes && { yes }) });
      await prepare(config, log, { accept });
      if (problems.length === 0) noteSettings(config, environment);
    });
}

/** Says what it means to accept the disk at BERTH_JAIL_DIR, and asks, unless that is the disk of the jails. */
async function askAboutDisk(invocation: Invocation, config: Config, options: { readonly yes?: true }): Promise<void> {
  const { checkJailDisk, filesNotHere } = await import('../machine/sftp/jail-disk.ts');
  const { confirm } = await import('./directory/named-directory.ts');
  const isRefused = await checkJailDisk(config).then(
    () => false,
    () => true,
  );
  if (!isRefused) return;
  const { known, missing } = await filesNotHere(config);
  invocation.print(`Files that are not on this disk count as removed: ${missing} of ${known}`);
  await confirm(invocation, options, `Accept the disk at ${config.jailDir}?`);
}

const DOCTOR_HELP = `
Exit status, as monitoring expects it: 0 all is well, 1 warnings, 2 failures.

Examples:
  berth doctor            a line for each check, with the remedy where something is wrong
  berth doctor --login    also creates a test directory, logs in by password and by key, uploads a file, deletes it
  berth doctor --json | jq -r '.[] | select(.verdict != "ok") | .text'`;

/** @param conclude receives the exit status. */
export function doctorCommand(invocation: Invocation, conclude: (status: number) => void): Command {
  return new Command('doctor')
    .description('Check this machine for problems, and say how to fix them')
    .option('--login', 'also log in to a test directory')
    .option('--json', 'print JSON')
    .addHelpText('after', DOCTOR_HELP)
    .action(async (options: { readonly login?: true; readonly json?: true }) => {
      const { runDoctor } = await import('../operating/doctor/run.ts');
      const { config, environment, clock, print } = invocation;
      conclude(await runDoctor({ ...options, config, environment, clock, print, stop: invocation.catchSignals() }));
    });
}

const LISTEN_HELP = `
Examples:
  berth listen                           show each webhook, and whether its signature is right
  berth listen --port 9001 --fail 500    answer 500, to see four attempts
  berth listen --delay 6                 answer too late: berth waits for 5 seconds
  berth listen --secret "$SECRET"        check with this secret instead of looking it up in the database

To send a directory's webhooks here: PATCH {"directory": {"webhook_url": "http://127.0.0.1:9000/"}}.
berth serve sends to this machine only with BERTH_WEBHOOK_ALLOW=127.0.0.0/8.`;

export function listenCommand(invocation: Invocation): Command {
  return new Command('listen')
    .description('Receive webhooks on this machine and show them')
    .option('--port <port>', 'port on 127.0.0.1', integer(0, 65_535), 9000)
    .option('--fail <status>', 'answer with this status instead of 200', integer(200, 599), 200)
    .option('--delay <seconds>', 'wait before answering', seconds, 0)
    .option('--secret <secret>', "the directory's webhook_secret")
    .addHelpText('after', LISTEN_HELP)
    .action(async (options: ListenArguments) => {
      const { runListen } = await import('../interfaces/listen/listen.ts');
      const { addressRule } = await import('../deliveries/webhooks/address-rule.ts');
      const { config, stdout } = invocation;
      // Without an installation, the settings of the service are not known here.
      if (existsSync(SETTINGS) && !addressRule(config().webhooks.allow)('127.0.0.1')) {
        invocation.stderr(
          `berth: warning: berth serve sends nothing to this machine: set BERTH_WEBHOOK_ALLOW=127.0.0.0/8\n`,
        );
      }
      const stop = invocation.catchSignals();
      const stopped = async (): Promise<unknown> => stop.aborted || once(stop, 'abort');
      await runListen(options, { database: () => config().database, stdout, stopped });
    });
}

function seconds(text: string): number {
  if (/^\d{1,4}(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a number of seconds such as 6.');
}

export function clockCommand({ config, clock, print }: Invocation): Command {
  const command = new Command('clock')
    .description('The clock that decides how old files and history are')
    .addHelpText('after', '\nExample:\n  date && berth clock confirm');
  command
    .command('confirm')
    .description('Confirm that the clock is right, for example after the machine was off for more than a day')
    .addHelpText(
      'after',
      `
After a jump of more than a day the clock is in doubt: until it is right or you confirm it, files expire as if it had not
jumped. The next hourly check uses the confirmed time.

Example:
  date && berth clock confirm`,
    )
    .action(async () => {
      const lead = await withDatabase(config(), (database) => confirmClock({ database, clock }));
      const was = lead === 0 ? 'it was not in doubt' : `it seemed ${(Math.abs(lead) / DAY).toFixed(1)} days off`;
      print(`${formatMicros(clock.now())} is right; ${was}`);
    });
  return command;
}

// `berth config check`: says what is wrong with the settings before a restart does.

/** @param conclude receives the exit status. */
export function configCommand({ config, environment, print }: Invocation, conclude: (status: number) => void): Command {
  const command = new Command('config')
    .description('The settings in /etc/berth/berth.env')
    .addHelpText('after', '\nExample:\n  berth config check && systemctl restart berth berth-sshd');
  command
    .command('check')
    .description('Check the settings, and change nothing; exit status 1 if something is wrong')
    .addHelpText(
      'after',
      `
Without an installed berth it checks the environment.

Example:
  berth config check && systemctl restart berth berth-sshd`,
    )
    .action(() => {
      const problems = [
        ...refused(config),
        ...unknownSettings(environment).map((name) => `${name} is not a setting and has no effect`),
        ...ignoredLines(),
      ];
      problems.forEach(print);
      if (problems.length === 0) print('The settings are valid');
      else conclude(1);
    });
  return command;
}

function refused(config: Invocation['config']): string[] {
  try {
    config();
    return [];
  } catch (error) {
    if (error instanceof OperatorError)
      return errorMessage(error)
        .replace(/^configuration: /, '')
        .split('; ');
    throw error;
  }
}
