/** The commands, wired: arguments and environment in, exit status out. No logic. */
import { once } from 'node:events';
import { accountCommand } from './cli/account-command.ts';
import { auditCommand } from './cli/audit-command.ts';
import { deliveriesCommand } from './cli/deliveries-command.ts';
import { directoriesCommand } from './cli/directories-command.ts';
import { backupCommand, restoreCommand } from './cli/backup-command.ts';
import { doctorCommand } from './cli/doctor-command.ts';
import { keyCommand } from './cli/key-command.ts';
import { listenCommand } from './cli/listen-command.ts';
import { runProgram } from './cli/program.ts';
import { prepareCommand, serveCommand } from './cli/serve-command.ts';
import { sessionsCommand } from './cli/sessions-command.ts';
import { transfersCommand } from './cli/transfers-command.ts';
import { withDatabase } from './cli/with-database.ts';
import { systemClock } from './clock.ts';
import { readConfig } from './config.ts';
import { pathsOf } from './sftp/paths.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export async function runCommandLine(argv: readonly string[], environment: Environment): Promise<number> {
  const config = () => readConfig(environment);
  const settled = async () => (await import('./backup/place.ts')).finishRestore(config());
  const stdout = (text: string) => void process.stdout.write(text);
  const stderr = (text: string) => void process.stderr.write(text);
  const print = (line: string) => stdout(`${line}\n`);
  const clock = systemClock();
  const database = withDatabase(config);
  const stopped = () => Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  const reporting = { withDatabase: database, clock, print, stopped };

  let found = 0;
  // What is imported inside is loaded when it runs: the other commands start in half the time without it.
  const commands = [
    serveCommand(async () => (await import('./serve.ts')).serve(await settled(), environment)),
    listenCommand(async (given) => {
      const { runListen } = await import('./listen/run.ts');
      await runListen(given, { databaseFile: () => config().databaseFile, stdout, stopped });
    }),
    prepareCommand(async () => (await import('./sftp/sshd.ts')).prepareSshd(await settled())),
    doctorCommand(async (given) => {
      found = await (await import('./doctor/run.ts')).runDoctor({ ...given, config, clock, print });
    }),
    backupCommand(async (given) => (await import('./backup/backup.ts')).backUp(config(), { ...given, clock }), print),
    restoreCommand(async (given) => (await import('./backup/restore.ts')).restore(config(), given), print),
    accountCommand({ withDatabase: database, clock, print }),
    keyCommand({ withDatabase: database, clock, environment: () => config().environment, print }),
    directoriesCommand(reporting),
    sessionsCommand({
      ...reporting,
      sessions: async () => (await import('./sftp/sessions.ts')).allSessions(pathsOf(config())),
    }),
    transfersCommand(reporting),
    deliveriesCommand(reporting),
    auditCommand(reporting),
  ];
  return (await runProgram(commands, argv, { stdout, stderr })) || found;
}
