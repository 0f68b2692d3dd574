/** `berth serve`, `berth prepare` and `berth doctor`. Their code is imported only when they run, so that other commands start faster. */
import { Command } from 'commander';
import type { Invocation } from './invocation.ts';

export function serveCommand({ config, environment }: Invocation): Command {
  return new Command('serve')
    .description('Run the API, the uploads and the webhooks; sshd is a process of its own')
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
      const { finishRestore } = await import('../backup/pending-restore.ts');
      const { serve } = await import('../service/serve.ts');
      await serve(finishRestore(config()), environment);
    });
}

export function prepareCommand({ config, environment }: Invocation): Command {
  return new Command('prepare')
    .description(
      'Check this machine, write what sshd reads, repair credentials after a power cut; may be repeated while sshd runs',
    )
    .option('--accept-empty-disk', "accept the disk of BERTH_JAIL_DIR, even without the directories' files")
    .addHelpText(
      'after',
      `
It refuses when BERTH_JAIL_DIR is not on the disk of the jails: when that is not mounted, for example. After a restore
without the customers' files, --accept-empty-disk accepts the new disk; every file then counts as removed.

Examples:
  berth prepare && systemctl restart berth-sshd
  berth prepare --accept-empty-disk && systemctl start berth-sshd berth`,
    )
    .action(async ({ acceptEmptyDisk: acceptEmpty = false }: { readonly acceptEmptyDisk?: boolean }) => {
      const { finishRestore } = await import('../backup/pending-restore.ts');
      const { createLog } = await import('../base/log.ts');
      const { prepare } = await import('../service/prepare.ts');
      const { warnOfUnknown } = await import('../service/serve.ts');
      const settings = finishRestore(config());
      const log = createLog(settings.logLevel);
      warnOfUnknown(environment, log);
      await prepare(settings, log, { acceptEmpty });
    });
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
      const { runDoctor } = await import('../doctor/run.ts');
      const { config, environment, clock, print } = invocation;
      conclude(await runDoctor({ ...options, config, environment, clock, print, stop: invocation.catchSignals() }));
    });
}
