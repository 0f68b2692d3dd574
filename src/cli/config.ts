/** `berth config check`: says what is wrong with the settings before a restart does. */
import { Command } from 'commander';
import { unknownSettings } from '../foundation/base/config.ts';
import { errorMessage, OperatorError } from '../foundation/base/errors.ts';
import { ignoredLines } from '../foundation/base/settings-file.ts';
import type { Invocation } from './invocation.ts';

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
