/** `berth serve` and `berth prepare`: the two that scripts and units run. */
import { Command } from 'commander';

export function serveCommand(serve: () => Promise<void>): Command {
  return new Command('serve')
    .description('run the API, the uploads and the webhooks; sshd is a process of its own')
    .addHelpText('after', '\nIt is configured by environment variables (see the README) and ends on SIGTERM.')
    .action(serve);
}

export function prepareCommand(prepare: () => Promise<void>): Command {
  return new Command('prepare')
    .description('check this machine and write what sshd reads; repeatable, and a running sshd is not disturbed')
    .action(prepare);
}
