/** A running berth with many directories or files that existed before it started. */
import { issueKey } from '../support/berth.ts';
import type { ApiClient } from '../support/api-client.ts';
import { until } from '../support/poll.ts';
import { scratch } from '../support/scratch.ts';
import { clientOf, startServe } from '../support/serve-process.ts';
import { startSshd } from '../support/sshd.ts';
import { type Filling, fill, tellSlowStatements } from './filled.ts';
import { fixedConfig } from './served.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';

export interface FilledBerth extends AsyncDisposable {
  readonly api: ApiClient;
  readonly sftpPort: number;
}

/**
 * Milliseconds that each of `count` calls took, alternately of the large and of the small berth, so that other load affects
 * both equally.
 */
export async function timedInTurns(
  count: number,
  large: (index: number) => Promise<unknown>,
  small: (index: number) => Promise<unknown>,
): Promise<{ large: number[]; small: number[] }> {
  const times: { large: number[]; small: number[] } = { large: [], small: [] };
  const calls = { large, small };
  for (let i = 0; i < count; i += 1) {
    for (const which of i % 2 === 0 ? (['large', 'small'] as const) : (['small', 'large'] as const)) {
      const began = performance.now();
      await calls[which](i);
      times[which].push(performance.now() - began);
    }
  }
  return times;
}

/** Ready when every directory has been compared. */
export async function filledBerth(filling: Filling): Promise<FilledBerth> {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch({ BERTH_LOG_LEVEL: 'info' }));
  const sshd = parts.use(await startSshd(place));
  const { config, environment } = await fixedConfig(place, sshd);
  const key = await issueKey(config);
  await fill(config, await accountOf(config.database), filling);
  tellSlowStatements(config);
  const serve = parts.use(await startServe(config, environment));
  await until('everything is covered', () => serve.output().includes('every directory has been compared'), 600);
  const api = parts.use(clientOf(config, key));
  const owned = parts.move();
  return {
    api,
    sftpPort: sshd.port,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function accountOf(place: string): Promise<string> {
  const database = await openDatabase(place);
  const { id } = await database.db.selectFrom('accounts').select('id').executeTakeFirstOrThrow();
  await database.close();
  return id;
}
