/** The command line as a whole: its commands, and how it ends. */
import { Command, CommanderError } from 'commander';
import { OperatorError } from '../errors.ts';
import { version } from '../version.ts';

/** Where messages for people go; standard output is for results. */
export interface Streams {
  stdout(text: string): void;
  stderr(text: string): void;
}

/**
 * Runs one command line, without the words `node` and the script's name.
 * @returns the exit status: 0, 1 for an error, 2 for wrong use. An error is one line, unless it is a bug of berth's.
 */
export async function runProgram(
  commands: readonly Command[],
  argv: readonly string[],
  { stdout, stderr }: Streams,
): Promise<number> {
  const program = new Command('berth')
    .description('SFTP directories by API, on a stock OpenSSH')
    .version(version)
    .showHelpAfterError('(add --help for the usage)')
    // Throws where commander would end the process.
    .exitOverride()
    .configureOutput({ writeOut: stdout, writeErr: stderr });
  for (const command of commands) program.addCommand(command);
  for (const command of descendants(program)) command.copyInheritedSettings(program);
  try {
    await program.parseAsync(argv, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof OperatorError)) throw error;
    stderr(`berth: ${error.message}\n`);
    return 1;
  }
}

function descendants(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...descendants(child)]);
}
