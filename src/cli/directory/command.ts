/** `berth directory …`: what the API does, through the service that runs here. */
import { Command } from 'commander';
import { directoriesCommand } from '../directories.ts';
import type { Invocation } from '../invocation.ts';
import { keysCommand, passwordCommand, resumeCommand, suspendCommand } from './access.ts';
import { createCommand } from './create.ts';
import { deleteCommand, setCommand, showCommand, uploadsCommand } from './directory.ts';
import { linkCommand } from './link.ts';
import { replayCommand, webhookCommand } from './webhook.ts';

const HELP = `
Name a directory by its id, SFTP username, external id, slug or name. If several match, they are listed.
All commands except list go to the service that runs here, and follow the rules of the API. berth audit shows who ran them.
Commands that cannot be undone ask at the terminal, or need --yes.

Examples:
  berth directory create 'Acme Corp' --account 0f2c6f0e-4c43-4b7c-9d0c-6a1c8f4f7f10 --webhook https://example.com/hook
  berth directory show acme-corp
  berth directory suspend acme-corp
  berth directory delete acme-corp-x7k2m9qa --yes`;

export function directoryCommand(invocation: Invocation): Command {
  return new Command('directory')
    .description('Directories: create, show, change and delete them')
    .addHelpText('after', HELP)
    .addCommand(createCommand(invocation))
    .addCommand(showCommand(invocation))
    .addCommand(directoriesCommand(invocation, 'list'))
    .addCommand(setCommand(invocation))
    .addCommand(suspendCommand(invocation))
    .addCommand(resumeCommand(invocation))
    .addCommand(deleteCommand(invocation))
    .addCommand(passwordCommand(invocation))
    .addCommand(keysCommand(invocation))
    .addCommand(webhookCommand(invocation))
    .addCommand(linkCommand(invocation))
    .addCommand(uploadsCommand(invocation))
    .addCommand(replayCommand(invocation));
}
