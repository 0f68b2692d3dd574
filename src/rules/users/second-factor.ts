/**
 * The second factor: codes from an app (TOTP, RFC 6238), and recovery codes in case the app is lost.
 *
 * Promises: no code is accepted twice, and a secret is stored only after a code of it was right. Wrong codes of the app make
 * the next try wait. Recovery codes never wait, since they are too long to be guessed: so nobody can keep a user out by
 * entering wrong codes.
 */
import type { Kysely, Transaction } from 'kysely';
import { Secret, TOTP } from 'otpauth';
import { type AccountTarget, verifyActor, verifyOneself } from '../accounts/actor.ts';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { Store } from '../../foundation/context.ts';
import type { Tables } from '../../foundation/db/schema.ts';
import { insertAccountAudit } from '../history/audit.ts';
import { hashToken, randomText } from '../../foundation/base/hashes.ts';
import { endUserSession, openUserSession, type SignedIn, userKeyId, type Visit } from './sessions.ts';
import { checkPassword, type PasswordContext } from './set-password.ts';
import { changing, type Changing, type UserTarget } from './users.ts';
import { BerthError, type ValidationError, wrongField } from '../../foundation/base/errors.ts';

const PERIOD_SECONDS = 30;
/** How many periods the clocks may be apart (RFC 6238, section 5.2). */
const WINDOW = 1;

const RECOVERY_CODES = 10;
/** 79 bits, without characters that look alike. */
const RECOVERY_LENGTH = 16;
const ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789';

export interface FactorContext extends PasswordContext {
  /** With a clock of its own in tests, which would wait otherwise. */
  readonly tries: Tries;
}

/** A proof that the request is the user's own. Either field is enough. */
export interface Proof {
  readonly code: string;
  readonly current_password: string;
}

/** 160 bits in base32 (RFC 4226, section 4). */
export function newSecret(): string {
  return new Secret({ size: 20 }).base32;
}

const MINUTE: Micros = 60 * SECOND;
/** For this long after signing in, nobody has to enter the password again. */
const RECENT: Micros = 300 * SECOND;

export function hasSignedInJustNow({ signedInAt }: Pick<SignedIn, 'signedInAt'>, now: Micros): boolean {
  // The absolute difference, in case the clock was set back.
  return Math.abs(now - signedInAt) <= RECENT;
}

/**
 * Requires more than a session, which may have been stolen, before a second factor is set up: a recent sign-in or the password.
 * @throws {ValidationError} about `current_password`. @throws {BerthError} `not_authorized` for a user without a password.
 */
export async function confirmOwner(
  context: FactorContext,
  target: UserTarget & Pick<SignedIn, 'signedInAt'>,
  password: string,
): Promise<void> {
  if (hasSignedInJustNow(target, context.clock.now())) return;
  const { hasPassword } = await secondFactorOf(context.database.reads, target.userId);
  if (!hasPassword)
    throw new BerthError(
      'not_authorized',
      'Sign out and sign in again to do this: your last sign-in was more than five minutes ago.',
    );
  await prove(context, target, { code: '', current_password: password });
}

/** The URI that an app reads from the QR code. */
export function keyUri(secret: string, email: string): string {
  return new TOTP({ issuer: 'berth', label: email, secret }).toString();
}

/** Whether the user has a password and a second factor, and how many recovery codes are left. */
export async function secondFactorOf(reads: Kysely<Tables>, userId: string) {
  const user = reads.selectFrom('users').select(['password_hash', 'totp_secret']).where('id', '=', userId);
  const { password_hash, totp_secret } = await user.executeTakeFirstOrThrow(removed);
  const codes = await reads.selectFrom('recovery_codes').select('hash').where('user_id', '=', userId).execute();
  return { hasPassword: password_hash !== null, isOn: totp_secret !== null, recoveryCodes: codes.length };
}

/**
 * Replaces the session that awaits a code by a new one.
 * @returns the token of the new session.
 * @throws {ValidationError} about `code`, even for a right one after too many wrong ones.
 */
export async function signInWithCode(
  { database, clock, tries }: FactorContext,
  { userId, sessionId }: Pick<SignedIn, 'userId' | 'sessionId'>,
  { code, visit }: { readonly code: string; readonly visit: Visit },
): Promise<string> {
  const now = clock.now();
  return trying(tries, userId, code, () =>
    database.db.transaction().execute(async (tx) => {
      await takeCode(tx, userId, code, now);
      if (!(await endUserSession(tx, userId, sessionId)))
        throw new BerthError('not_authorized', 'This sign-in has ended.');
      return openUserSession(tx, userId, { now, visit, awaitsCode: false });
    }),
  );
}

/**
 * @returns the recovery codes.
 * @throws {ValidationError} about `code`. @throws {BerthError} `not_authorized` when the user has a second factor already.
 */
export async function setUpSecondFactor(
  context: Store,
  target: UserTarget,
  { secret, code }: { readonly secret: string; readonly code: string },
): Promise<string[]> {
  const { userId } = target;
  const totp_step = stepOf(secret, plain(code), context.clock.now());
  if (totp_step === undefined) throw wrongCode();
  return changing(context, target, async ({ tx, user, audited }) => {
    if (user.has_second_factor) throw new BerthError('not_authorized', 'You have set up two-factor sign-in already.');
    await tx.updateTable('users').set({ totp_secret: secret, totp_step }).where('id', '=', userId).execute();
    await audited('update-user', { second_factor: { from: false, to: true } });
    return insertRecoveryCodes(tx, userId);
  });
}

/**
 * Replaces the recovery codes.
 * @returns the new codes.
 * @throws {ValidationError} about `code` or `current_password`.
 * @throws {BerthError} `not_authorized` when the user has no second factor.
 */
export async function renewRecoveryCodes(context: FactorContext, target: UserTarget, proof: Proof): Promise<string[]> {
  await prove(context, target, proof);
  return changing(context, target, async ({ tx, user, audited }) => {
    if (!user.has_second_factor) throw new BerthError('not_authorized', 'You have not set up two-factor sign-in.');
    await audited('update-user', { recovery_codes: { from: null, to: RECOVERY_CODES } });
    return insertRecoveryCodes(tx, target.userId);
  });
}

/**
 * @throws {ValidationError} about `code` or `current_password`.
 * @throws {BerthError} `not_authorized` while the account requires a second factor.
 */
export async function turnOffSecondFactor(context: FactorContext, target: UserTarget, proof: Proof): Promise<void> {
  await prove(context, target, proof);
  await endSecondFactor(context, target, async ({ tx, user }) => {
    if (await isSecondFactorRequired(tx, user.account_id))
      throw new BerthError('not_authorized', 'Your account requires two-factor sign-in, so it cannot be turned off.');
  });
}

/**
 * Turns off the second factor of another user, who has lost the app and the recovery codes.
 * @throws {BerthError} `not_authorized` when it is the actor's own, since turning that off requires a proof.
 */
export async function resetSecondFactor(context: Store, target: UserTarget): Promise<void> {
  await endSecondFactor(context, target, ({ user }) => {
    if (target.actor?.keyId === userKeyId(user.email))
      throw new BerthError('not_authorized', 'Turn off your own two-factor sign-in on your profile.');
  });
}

/** While it is required, users without a second factor have to set one up first, and nobody can turn theirs off. */
export async function requireSecondFactor(
  { database, clock }: Store,
  target: AccountTarget,
  isRequired: boolean,
): Promise<void> {
  const at = clock.now();
  await database.db.transaction().execute(async (tx) => {
    await verifyActor(tx, target);
    const { numUpdatedRows } = await tx
      .updateTable('accounts')
      .set({ second_factor_required_at: isRequired ? at : null })
      .where('id', '=', target.accountId)
      .where('second_factor_required_at', isRequired ? 'is' : 'is not', null)
      .executeTakeFirst();
    const details = { second_factor_required: { from: !isRequired, to: isRequired } };
    if (numUpdatedRows > 0n) await insertAccountAudit(tx, target, { at, action: 'update-account', details });
  });
}

async function endSecondFactor(
  context: Store,
  target: UserTarget,
  check: (changing: Changing) => void | Promise<void>,
): Promise<void> {
  const { userId } = target;
  await changing(context, target, async (own) => {
    await check(own);
    if (!own.user.has_second_factor) return;
    await own.tx.updateTable('users').set({ totp_secret: null }).where('id', '=', userId).execute();
    await own.tx.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
    await own.audited('update-user', { second_factor: { from: true, to: false } });
  });
}

/** @throws {ValidationError} about `code` or, if that is empty, `current_password`. */
export async function prove(
  context: FactorContext,
  target: UserTarget,
  { code, current_password: password }: Proof,
): Promise<void> {
  const { userId } = target;
  await trying(context.tries, userId, code, async () => {
    if (code !== '') {
      await context.database.db.transaction().execute(async (tx) => {
        await verifyOneself(tx, target);
        await takeCode(tx, userId, code, context.clock.now());
      });
    } else if (!(await checkPassword(context, userId, password))) {
      throw wrongField('current_password', 'wrong');
    }
  });
}

/** Limits tries with short codes and passwords. Recovery codes, which are too long to be guessed, are not limited. */
async function trying<T>(tries: Tries, userId: string, code: string, work: () => Promise<T>): Promise<T> {
  const wait = plain(code).length < RECOVERY_LENGTH ? await tries.begin(userId) : 0;
  if (wait > 0) throw wrongField(code === '' ? 'current_password' : 'code', 'too_often', Math.ceil(wait / MINUTE));
  const result = await work();
  await tries.succeeded(userId);
  return result;
}

/** Uses up a code. @throws {ValidationError} when it is wrong, or was used before. */
async function takeCode(tx: Transaction<Tables>, userId: string, code: string, now: Micros): Promise<void> {
  const user = tx.selectFrom('users').select(['totp_secret', 'totp_step']).where('id', '=', userId);
  const { totp_secret: secret, totp_step: last } = await user.forNoKeyUpdate().executeTakeFirstOrThrow(removed);
  if (secret === null) throw wrongCode();
  const text = plain(code);
  const step = stepOf(secret, text, now);
  // A last step in the future comes from a clock that has been set back since. It must not keep the user out.
  if (step !== undefined && (step > last || last > step + 2 * WINDOW)) {
    await tx.updateTable('users').set({ totp_step: step }).where('id', '=', userId).execute();
    return;
  }
  const recovery = tx.deleteFrom('recovery_codes').where('user_id', '=', userId).where('hash', '=', hashToken(text));
  if ((await recovery.executeTakeFirst()).numDeletedRows === 0n) throw wrongCode();
}

/** The number, counted from 1970, of the period that has this code. */
function stepOf(secret: string, code: string, now: Micros): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined;
  const timestamp = now / 1000;
  const delta = new TOTP({ secret, period: PERIOD_SECONDS }).validate({ token: code, timestamp, window: WINDOW });
  return delta === null ? undefined : TOTP.counter({ period: PERIOD_SECONDS, timestamp }) + delta;
}

async function insertRecoveryCodes(tx: Transaction<Tables>, userId: string): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, () => randomText(ALPHABET, RECOVERY_LENGTH));
  await tx.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
  const rows = codes.map((code) => ({ user_id: userId, hash: hashToken(code) }));
  await tx.insertInto('recovery_codes').values(rows).execute();
  return codes.map((code) => code.replaceAll(/.{4}(?=.)/g, '$&-'));
}

/** Normalizes a code, which people may type in groups or in capitals. */
function plain(code: string): string {
  return code.replaceAll(/[\s-]/g, '').toLowerCase();
}

/** The user was removed after the request was let in. */
function removed(): BerthError {
  return new BerthError('not_authorized', 'Your user was removed, so nothing was changed.');
}

function wrongCode(): ValidationError {
  return wrongField('code', 'wrong_code');
}

// Limits how often a user may try a secret that is short enough to be guessed. The first wrong tries in a row cost
// nothing; after that, each wrong try doubles the wait for the next, up to an hour. The database counts them, so that
// they survive a restart and hold on every node.

/** The number of the first try that makes the next one wait. */
const FIRST_COUNTED = 5;
const FIRST_WAIT: Micros = 30 * SECOND;
const LONGEST_WAIT: Micros = 3600 * SECOND;

export interface Tries {
  /** Counts a try, unless the user has to wait. @returns how long to wait, or 0. */
  begin(userId: string): Promise<Micros>;
  /** Forgets the wrong tries: the last one was right. */
  succeeded(userId: string): Promise<void>;
}

export function createTries({ database: { db }, clock }: Store): Tries {
  return {
    begin: (userId) =>
      db.transaction().execute(async (tx) => {
        const own = tx.selectFrom('users').select('id').where('id', '=', userId).forNoKeyUpdate();
        if (!(await own.executeTakeFirst())) return 0; // removed just now: the try itself fails
        const before = await tx.selectFrom('code_tries').selectAll().where('user_id', '=', userId).executeTakeFirst();
        const now = clock.now();
        const wait = (before?.until ?? 0) - now;
        // A longer wait comes from a clock that has been set back since.
        if (wait > 0 && wait <= LONGEST_WAIT) return wait;
        const count = (before?.count ?? 0) + 1;
        const next = count < FIRST_COUNTED ? 0 : Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (count - FIRST_COUNTED));
        const row = { user_id: userId, count, until: now + next };
        await tx
          .insertInto('code_tries')
          .values(row)
          .onConflict((conflict) => conflict.column('user_id').doUpdateSet(row))
          .execute();
        return 0;
      }),
    async succeeded(userId) {
      await db.deleteFrom('code_tries').where('user_id', '=', userId).execute();
    },
  };
}

export async function isSecondFactorRequired(reads: Kysely<Tables>, accountId: string): Promise<boolean> {
  const account = reads.selectFrom('accounts').select('second_factor_required_at').where('id', '=', accountId);
  return (await account.executeTakeFirstOrThrow()).second_factor_required_at !== null;
}
