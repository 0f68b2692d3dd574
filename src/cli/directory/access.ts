/** `berth directory suspend`, `resume`, `password` and `key …`. */
import { Command } from 'commander';
import type { Invocation } from '../invocation.ts';
import { type DirectoryAnswer, readKey, sftpCommand, table } from './fields.ts';
import { type CommonOptions, confirm, irrevocable, named, onDirectory, show } from './named-directory.ts';
import { columns } from '../../foundation/base/text.ts';

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

interface PublicKey {
  readonly fingerprint: string;
  readonly type: string;
  readonly comment: string | null;
  readonly inserted_at: string;
  readonly last_used_at: string | null;
}

const HELP = `
Keys work while auth_mode is public_key or both: see berth directory set.

Examples:
  berth directory key list acme-corp
  berth directory key add acme-corp id_ed25519.pub
  berth directory key remove acme-corp SHA256:uNiVztksCsDhcc0u9e8BrhZ6KE… --yes`;

export function keysCommand(invocation: Invocation): Command {
  const command = new Command('key').description('Public keys of a directory').addHelpText('after', HELP);

  onDirectory(command.command('list').description('List the public keys, newest first'))
    .addHelpText('after', '\nExample:\n  berth directory key list acme-corp')
    .action(async (text: string, options: CommonOptions) => {
      const { ask } = await named(invocation, text, options);
      show(invocation, options, await ask<PublicKey[]>('GET', '/public_keys'), (keys) =>
        columns()([['FINGERPRINT', 'TYPE', 'ADDED', 'LAST USED', 'COMMENT'], ...keys.map(cellsOf)]),
      );
    });

  onDirectory(command.command('add').description('Add a public key; the others stay'))
    .argument('<file>', 'an OpenSSH public key; - is standard input')
    .addHelpText('after', '\nExample:\n  berth directory key add acme-corp id_ed25519.pub')
    .action(async (text: string, file: string, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      const answer = await ask<PublicKey>('POST', '/public_keys', { public_key: readKey(file) });
      show(invocation, options, answer, ({ fingerprint }) => [`Added ${fingerprint} to ${directory.sftp_username}`]);
    });

  irrevocable(onDirectory(command.command('remove').description('Remove a public key')))
    .argument('<fingerprint>', 'as the list shows it')
    .addHelpText('after', '\nExample:\n  berth directory key remove acme-corp SHA256:uNiVztksCsDhcc0u9e8BrhZ6KE… --yes')
    .action(async (text: string, fingerprint: string, options: CommonOptions) => {
      const { ask, directory } = await named(invocation, text, options);
      await confirm(invocation, options, `Remove ${fingerprint} from ${directory.sftp_username}?`);
      const answer = await ask('DELETE', `/public_keys/${encodeURIComponent(fingerprint)}`);
      show(invocation, options, answer, () => [`Removed ${fingerprint} from ${directory.sftp_username}`]);
    });

  return command;
}

function cellsOf({ fingerprint, type, comment, inserted_at, last_used_at }: PublicKey) {
  return [fingerprint, type, inserted_at, last_used_at, comment];
}
