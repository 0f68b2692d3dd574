/** The whole command line: its commands, and its exit status. */
import { Command, CommanderError } from 'commander';
import { errorCode, OperatorError } from '../foundation/base/errors.ts';
import { isJournal, PRIORITY } from '../foundation/base/log.ts';
import { readOnlyPlace } from '../machine/sftp/files.ts';
import { version } from '../foundation/base/version.ts';
import { accountCommand } from './account.ts';
import { auditCommand, deliveriesCommand, transfersCommand } from './history.ts';
import { backupCommand, migrateToCommand, restoreCommand } from './backup.ts';
import { clockCommand, configCommand, doctorCommand, listenCommand, prepareCommand, serveCommand } from './machine.ts';
import { directoriesCommand } from './directories.ts';
import { directoryCommand } from './directory/directory.ts';
import { eraseCommand } from './erase.ts';
import { explainCommand } from './explain.ts';
import { hostKeyCommand } from './host-key.ts';
import { Interruption, type Invocation } from './invocation.ts';
import { apiKeyCommand } from './api-key.ts';
import { nodeCommand } from './node.ts';
import { partialCommand, quarantineCommand } from './held-back.ts';
import { sessionsCommand } from './sessions.ts';
import { userCommand } from './user.ts';

const HELP = `
Each command has --help with examples. Settings are environment variables: see /etc/berth/berth.env.

Exit status: 0 success; 1 an error, in one line on standard error; 2 wrong usage; 130 or 143 if Ctrl-C or SIGTERM ended the
command early. berth doctor has its own: 0 all is well, 1 warnings, 2 failures.`;

/**
 * Runs one command line (without `node` and the script's name).
 * @returns the exit status. An error is printed in one line. A bug of berth's is thrown.
 */
export async function runProgram(argv: readonly string[], invocation: Invocation): Promise<number> {
  const { environment, stderr, stopped } = invocation;
  let status = 0;
  try {
    await commandLine(invocation, (exitStatus) => (status = exitStatus)).parseAsync(argv, { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const end: unknown = stopped.aborted ? stopped.reason : explained(error);
    if (!(end instanceof Interruption) && !(end instanceof OperatorError)) throw error;
    if (end.message !== '') stderr(`${isJournal(environment) ? `<${PRIORITY.err}>` : ''}berth: ${end.message}\n`);
    return end instanceof Interruption ? end.status : 1;
  }
}

/**
 * All commands with their options: the source of `--help`, of the shell completion, and of what the man page has to name.
 * @param conclude receives the exit status of a command that has its own.
 */
export function commandLine(invocation: Invocation, conclude: (status: number) => void): Command {
  const { stdout, stderr } = invocation;
  const program = new Command('berth')
    .description('SFTP directories by API, on a stock OpenSSH')
    .version(version, '-V, --version', 'print the version')
    .addHelpText('after', HELP)
    .showHelpAfterError('(add --help for the usage)')
    // Throws instead of ending the process.
    .exitOverride()
    .configureOutput({ writeOut: stdout, writeErr: stderr })
    .addCommand(serveCommand(invocation))
    .addCommand(listenCommand(invocation))
    .addCommand(prepareCommand(invocation))
    .addCommand(doctorCommand(invocation, conclude))
    .addCommand(configCommand(invocation, conclude))
    .addCommand(clockCommand(invocation))
    .addCommand(backupCommand(invocation))
    .addCommand(restoreCommand(invocation))
    .addCommand(migrateToCommand(invocation))
    .addCommand(nodeCommand(invocation))
    .addCommand(accountCommand(invocation))
    .addCommand(apiKeyCommand(invocation))
    .addCommand(userCommand(invocation))
    .addCommand(hostKeyCommand(invocation))
    .addCommand(directoryCommand(invocation))
    .addCommand(partialCommand(invocation))
    .addCommand(quarantineCommand(invocation))
    .addCommand(explainCommand(invocation))
    .addCommand(eraseCommand(invocation))
    .addCommand(directoriesCommand(invocation))
    .addCommand(sessionsCommand(invocation))
    .addCommand(transfersCommand(invocation))
    .addCommand(deliveriesCommand(invocation))
    .addCommand(auditCommand(invocation));
  for (const command of descendants(program)) command.copyInheritedSettings(program);
  return program;
}

function explained(error: unknown): unknown {
  return errorCode(error) === 'EROFS' ? readOnlyPlace((error as NodeJS.ErrnoException).path, error) : error;
}

function descendants(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...descendants(child)]);
}
