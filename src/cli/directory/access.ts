/** `berth directory suspend`, `resume` and `password`. */
import { Command } from 'commander';
import type { Invocation } from '../invocation.ts';
import { sftpCommand, type DirectoryAnswer, table } from './fields.ts';
import { type CommonOptions, confirm, irrevocable, named, onDirectory, show } from './named-directory.ts';

export function suspendCommand(invocation: Invocation): Command {
  return switchCommand(invocation, 'suspend', true).description(
    'Refuse logins and end the live sessions; the files stay',
  );
}

export function resumeCommand(invocation: Invocation): Command {
  return switchCommand(invocation, 'resume', false).description('Let its user log in again');
}

function switchCommand(invocation: Invocation, name: string, suspended: boolean): Command {
  return onDirectory(new Command(name))
    .addHelpText('after', `\nExample:\n  berth directory ${name} acme-corp`)
    .action(async (text: string, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      const answer = await ask('PATCH', '/access', { suspended });
      const state = suspended ? 'suspended: logins are refused' : 'no longer suspended';
      show(invocation, options, answer, () => [`${directory.sftp_username} is ${state}`]);
    });
}

export function passwordCommand(invocation: Invocation): Command {
  return irrevocable(
    onDirectory(new Command('password').description('Replace the password. The new one is shown once.')),
  )
    .addHelpText('after', '\nExample:\n  berth directory password acme-corp --yes')
    .action(async (text: string, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      await confirm(
        invocation,
        options,
        `Replace the password of ${directory.sftp_username}? The old one stops working.`,
      );
      show(invocation, options, await ask<DirectoryAnswer>('POST', '/password'), (fields) =>
        table({
          username: fields.sftp_username,
          password: `${fields.sftp_password} (shown once)`,
          connect: sftpCommand(fields),
        }),
      );
    });
}
