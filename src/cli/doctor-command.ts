/** `berth doctor` */
import { Command } from 'commander';

export interface DoctorArguments {
  readonly json: boolean;
  readonly login: boolean;
}

const HELP = `
Exit status, as monitoring expects it: 0 all is well, 1 warnings, 2 failures.

Examples:
  berth doctor            a line for each thing, with the remedy where something is wrong
  berth doctor --login    also makes a throw-away directory, logs in by password and by key, uploads, deletes it`;

/** @param run examines and prints. */
export function doctorCommand(run: (given: DoctorArguments) => Promise<void>): Command {
  return new Command('doctor')
    .description('check what can be wrong on this machine, and say how to mend it')
    .option('--login', 'log in to a throw-away directory, too', false)
    .option('--json', 'print JSON', false)
    .addHelpText('after', HELP)
    .action(run);
}
