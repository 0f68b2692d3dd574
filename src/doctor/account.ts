/** The account that the doctor makes its throw-away directory in. It stays; its keys do not. */
import { createAccount } from '../accounts/accounts.ts';
import { createKey } from '../accounts/api-keys.ts';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import { openDatabase } from '../db/open.ts';

const NAME = 'berth doctor';

export interface Account extends AsyncDisposable {
  /** An admin key, which is in force until this is disposed of. */
  readonly key: string;
  /** What an earlier doctor left. */
  readonly directories: readonly string[];
}

export async function openDoctorsAccount(config: Config, clock: Clock): Promise<Account> {
  await using parts = new AsyncDisposableStack();
  const database = parts.adopt(await openDatabase(config.databaseFile), (opened) => opened.close());
  const { db } = database;
  const found = await db.selectFrom('accounts').select('id').where('name', '=', NAME).executeTakeFirst();
  const { id } = found ?? (await createAccount({ database, clock }, { name: NAME, plan: 'business' }));
  const removeKeys = async (): Promise<void> => {
    await db.deleteFrom('api_keys').where('account_id', '=', id).where('name', '=', NAME).execute();
  };
  const { key } = await createKey(
    { database, clock, environment: config.environment },
    { accountId: id, role: 'admin', name: NAME },
  );
  parts.defer(removeKeys);
  const rows = await db
    .selectFrom('directories')
    .select('id')
    .where('account_id', '=', id)
    .where('name', '=', NAME)
    .where('deleted_at', 'is', null)
    .execute();
  const owned = parts.move();
  return { key, directories: rows.map((row) => row.id), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
