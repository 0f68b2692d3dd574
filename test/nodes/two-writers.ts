/** Two nodes' rules on one database, without their machines. The second one's clock is five minutes ahead. */
import { mkdirSync } from 'node:fs';
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { createGround } from '../../src/foundation/context.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import type { Plan } from '../../src/foundation/db/schema.ts';
import { isShared } from '../../src/foundation/db/shared.ts';
import { onlyHome } from '../../src/rules/directories/host.ts';
import { createRowRemoval } from '../../src/rules/directories/row-removal.ts';
import type { RuleContext } from '../../src/rules/directories/target.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { createPasswordHashing, createPasswords, type Passwords } from '../../src/rules/users/passwords.ts';
import { createTries, type Tries } from '../../src/rules/users/second-factor.ts';
import { movedClock } from '../support/moved-clock.ts';
import { recordingHost } from '../support/recording-host.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

const APART = 300_000_000;

export interface Writer extends RuleContext {
  readonly passwords: Passwords;
  readonly tries: Tries;
}

export interface TwoWriters extends AsyncDisposable {
  readonly place: Scratch;
  readonly one: Writer;
  readonly other: Writer;
  readonly isShared: boolean;
  /** What is committed. */
  readonly reads: Database['reads'];
  /** A new account's id. */
  account(plan?: Plan): Promise<string>;
}

export async function twoWriters(): Promise<TwoWriters> {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  mkdirSync(place.config.stateDir, { recursive: true });
  const log = createLog('silent');
  const writer = async (offset: number): Promise<Writer> => {
    const database = parts.adopt(await openDatabase(place.config.database), (opened) => opened.close());
    const host = recordingHost();
    const removal = parts.adopt(createRowRemoval({ database, log, host }), (made) => made.close());
    const clock = Object.assign(movedClock(), { offset });
    return {
      ...createGround({ config: place.config, database, clock, log }),
      host,
      removal,
      placement: onlyHome(place.config),
      passwords: createPasswords(createPasswordHashing({ ln: 4, r: 8, p: 1 })),
      tries: createTries({ database, clock }),
    };
  };
  const one = await writer(0);
  const other = await writer(APART);
  const owned = parts.move();
  return {
    place,
    one,
    other,
    isShared: isShared(one.database.reads),
    reads: one.database.reads,
    account: async (plan = 'business') =>
      (await createAccount({ database: one.database, clock: systemClock() }, { name: 'Acme', plan })).id,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** How many of these have succeeded; the others were refused in that way. */
export async function succeeded(asked: readonly Promise<unknown>[], isRefusal: (error: unknown) => boolean) {
  const results = await Promise.allSettled(asked);
  for (const each of results) if (each.status === 'rejected' && !isRefusal(each.reason)) throw each.reason;
  return results.filter(({ status }) => status === 'fulfilled').length;
}
