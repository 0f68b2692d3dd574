/** The rules of users on a database of their own, with a clock that the test sets and hashes that cost next to nothing. */
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import { clientNetwork, clientSite } from '../../src/interfaces/web/client-address.ts';
import {
  createPasswordHashing,
  createPasswords,
  type PasswordHashing,
  type Passwords,
} from '../../src/rules/users/passwords.ts';
import { createSignIn, type SignIn, type SignInOptions } from '../../src/rules/users/sign-in.ts';
import { copyEmptyDatabase } from './empty-database.ts';
import type { Scratch } from './scratch.ts';
import { type SetClock, setClock } from './set-clock.ts';

export interface UsersPlace extends AsyncDisposable {
  readonly database: Database;
  readonly clock: SetClock;
  readonly passwords: Passwords;
  readonly signIn: SignIn;
  /** A new account's id. */
  account(): Promise<string>;
}

const UNLIMITED = { take: () => undefined };

export async function usersPlace(
  { config }: Scratch,
  {
    hashing = createPasswordHashing({ ln: 4, r: 8, p: 1 }),
    limits = { byAddress: UNLIMITED, byUser: UNLIMITED },
  }: { hashing?: PasswordHashing; limits?: SignInOptions['limits'] } = {},
): Promise<UsersPlace> {
  copyEmptyDatabase(config);
  const database = await openDatabase(config.database);
  const clock = setClock();
  const passwords = createPasswords(hashing);
  return {
    database,
    clock,
    passwords,
    signIn: createSignIn({
      database,
      clock,
      passwords,
      networkOf: { network: clientNetwork, site: clientSite },
      limits,
    }),
    account: async () => (await createAccount({ database, clock }, { name: 'Acme', plan: 'free' })).id,
    [Symbol.asyncDispose]: () => database.close(),
  };
}
