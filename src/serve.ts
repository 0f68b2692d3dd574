/**
 * `berth serve`: the service until a signal ends it. SIGTERM and SIGINT let what is in flight finish; a second one, or
 * ten seconds, end it at once. SIGHUP reads the certificate again. An uncaught error ends it too: the supervisor starts
 * it anew, and the database is the truth.
 */
import { once } from 'node:events';
import type { Config } from './config.ts';
import { isJournal } from './journal.ts';
import { createLog, journalStream } from './log.ts';
import { startService } from './service.ts';
import { createSystemd } from './systemd.ts';

/** How long the end may take, in ms. */
const PATIENCE = 10_000;

/** @param environment what systemd tells a service of itself. */
export async function serve(
  config: Config,
  environment: Readonly<Record<string, string | undefined>> = {},
): Promise<void> {
  process.title = 'berth serve'; // what ps, top and systemctl call it
  const log = createLog(config.logLevel, isJournal(environment) ? journalStream() : undefined);
  const systemd = createSystemd(environment, log);
  const die = (error: unknown): void => {
    log.fatal({ err: error }, 'berth ends on an error that nobody caught');
    process.exit(1);
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);

  const asked = Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  const service = await startService(config, { log });
  process.on('SIGHUP', service.reload);
  systemd.ready();
  await asked;
  log.info('berth ends: requests and deliveries in flight finish first');
  setTimeout(() => {
    log.error('not everything ended in time; the next start repeats it');
    process.exit(1);
  }, PATIENCE).unref();
  process.once('SIGTERM', () => process.exit(1));
  process.once('SIGINT', () => process.exit(1));
  systemd.ending();
  await service.close();
  log.info('berth has ended');
}
