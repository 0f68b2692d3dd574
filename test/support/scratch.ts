/**
 * Folders for each test's berth (state, jails and runtime), removed at the end. Not under /tmp, since sshd refuses a jail
 * below a folder that others may write to.
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, readConfig } from '../../src/foundation/base/config.ts';
import { freshDatabase, onPostgres } from './postgres.ts';

/** Where all folders of tests are. */
export const ROOT = '/srv/berth-test';

export interface Scratch extends Disposable {
  readonly dir: string;
  /** The environment that `config` was read from, for processes that the test starts. */
  readonly environment: Record<string, string>;
  readonly config: Config;
}

/** A fresh folder and a configuration that lives in it; ports are 0, so the system picks free ones. */
export function scratch(overrides: Record<string, string> = {}): Scratch {
  mkdirSync(ROOT, { recursive: true, mode: 0o755 });
  const dir = mkdtempSync(join(ROOT, 't-'));
  // mkdtemp makes it 0700, but SFTP users have to pass through.
  chmodSync(dir, 0o755);
  const database = onPostgres && overrides['BERTH_DATABASE_URL'] === undefined ? freshDatabase() : undefined;
  const environment = {
    BERTH_STATE_DIR: join(dir, 'state'),
    BERTH_JAIL_DIR: join(dir, 'jails'),
    BERTH_RUNTIME_DIR: join(dir, 'run'),
    BERTH_API_HOST: '127.0.0.1',
    BERTH_API_PORT: '0',
    BERTH_SFTP_HOST: '127.0.0.1',
    BERTH_SFTP_PORT: '0',
    BERTH_METRICS_PORT: 'off',
    // Its pages are .tsx, which Node alone does not load (test/dashboard/).
    BERTH_DASHBOARD: 'off',
    BERTH_LOG_LEVEL: 'error',
    ...(database && { BERTH_DATABASE_URL: database.url }),
    ...overrides,
  };
  return {
    dir,
    environment,
    config: readConfig(environment),
    [Symbol.dispose]() {
      rmSync(dir, { recursive: true, force: true });
      database?.drop();
    },
  };
}
