/** The command's entry: environment in, exit status out. No logic. */
import { once } from 'node:events';
import { accountCommand } from './cli/account-command.ts';
import { keyCommand } from './cli/key-command.ts';
import { listenCommand } from './cli/listen-command.ts';
import { runProgram } from './cli/program.ts';
import { prepareCommand, serveCommand } from './cli/serve-command.ts';
import { withDatabase } from './cli/with-database.ts';
import { systemClock } from './clock.ts';
import { readConfig } from './config.ts';

const config = () => readConfig(process.env);
const stdout = (text: string) => void process.stdout.write(text);
const stderr = (text: string) => void process.stderr.write(text);
const print = (line: string) => stdout(`${line}\n`);
const clock = systemClock();
const database = withDatabase(config);

process.exitCode = await runProgram(
  [
    // Loaded when they run: the other commands start in half the time without them.
    serveCommand(async () => (await import('./serve.ts')).serve(config())),
    listenCommand(async (given) => {
      const stopped = () => Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
      await (
        await import('./listen/run.ts')
      ).runListen(given, { databaseFile: () => config().databaseFile, stdout, stopped });
    }),
    prepareCommand(async () => (await import('./sftp/sshd.ts')).prepareSshd(config())),
    accountCommand({ withDatabase: database, clock, print }),
    keyCommand({ withDatabase: database, clock, environment: () => config().environment, print }),
  ],
  process.argv.slice(2),
  { stdout, stderr },
);
