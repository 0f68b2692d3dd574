/**
 * Random lives of a user with a second factor, against a model of who gets in: setting it up, codes that are right, early,
 * late, wrong or used, recovery codes, the account asking for it, turning it off, and an admin's reset.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fc } from '../../support/fast-check.ts';
import { createAccount } from '../../../src/rules/accounts/accounts.ts';
import { type Database, openDatabase } from '../../../src/foundation/db/open.ts';
import { BerthError, ValidationError } from '../../../src/foundation/base/errors.ts';
import { createPasswordHashing, createPasswords } from '../../../src/rules/users/passwords.ts';
import * as factor from '../../../src/rules/users/second-factor.ts';
import { createTries } from '../../../src/rules/users/second-factor.ts';
import { sessionOf } from '../../../src/rules/users/sessions.ts';
import { setPassword } from '../../../src/rules/users/set-password.ts';
import { enter } from '../../../src/rules/users/sign-in.ts';
import { createUser } from '../../../src/rules/users/users.ts';
import { copyEmptyDatabase } from '../../support/empty-database.ts';
import { scratch } from '../../support/scratch.ts';
import { setClock } from '../../support/set-clock.ts';
import { codeAt, operator, PASSWORD } from '../../support/users.ts';

const STEP = 30_000_000;
const VISIT = { address: '192.0.2.1', agent: 'test' };

/** The code that is entered: one of the app, some steps from now; a recovery code by its position; or a made-up one. */
const given = fc.oneof(
  fc.record({ steps: fc.integer({ min: -3, max: 3 }) }),
  fc.record({ recovery: fc.nat(9) }),
  fc.record({ steps: fc.constant(0) }),
  fc.constant('wrong' as const),
);
const proof = fc.oneof(given, fc.constant('password' as const), fc.constant('wrong password' as const));
const step = fc.oneof(
  fc.record({ do: fc.constant('set up' as const), given }),
  fc.record({ do: fc.constant('sign in' as const), given }),
  fc.record({ do: fc.constant('sign in' as const), given }),
  fc.record({ do: fc.constant('wait' as const), steps: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ do: fc.constant('renew' as const), proof }),
  fc.record({ do: fc.constant('turn off' as const), proof }),
  fc.record({ do: fc.constant('require' as const), isRequired: fc.boolean() }),
  fc.record({ do: fc.constant('reset' as const) }),
);
type Given = typeof given extends fc.Arbitrary<infer T> ? T : never;
type Proof = typeof proof extends fc.Arbitrary<infer T> ? T : never;
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What should be, in as few words as there are. */
class Model {
  secret: string | undefined;
  lastStep = 0;
  recovery: string[] = [];
  readonly used = new Set<string>();
  isRequired = false;
  /** Tokens of sessions that let in. */
  live = new Set<string>();
  /** Any that ever did. */
  readonly ended = new Set<string>();

  /** Whether it is taken, which uses it up. */
  takes(entered: Given, now: number): boolean {
    if (this.secret === undefined || entered === 'wrong') return false;
    if ('recovery' in entered) {
      const code = this.recovery[entered.recovery] ?? '';
      if (code === '' || this.used.has(code)) return false;
      this.used.add(code);
      return true;
    }
    const at = Math.floor(now / STEP) + entered.steps;
    if (Math.abs(entered.steps) > 1 || at <= this.lastStep) return false;
    this.lastStep = at;
    return true;
  }

  has(secret: string, recovery: string[], at: number): void {
    this.secret = secret;
    this.recovery = recovery;
    this.lastStep = at;
  }

  ends(but?: string): void {
    for (const token of this.live) if (token !== but) this.ended.add(token);
    this.live = new Set(but === undefined || !this.live.has(but) ? [] : [but]);
  }
}

async function lifeOf(database: Database, steps: readonly Step[]): Promise<void> {
  const clock = setClock();
  let ticks = 0;
  const options = {
    database,
    clock,
    passwords: createPasswords(createPasswordHashing({ ln: 4, r: 8, p: 1 })),
    // So slow that there is never a wait: waits have a test of their own.
    tries: createTries({ database, clock: { now: () => (ticks += 1e10) } }),
  };
  const { id: accountId } = await createAccount(options, { name: 'Test', plan: 'pro' });
  const target = operator(accountId);
  const email = `${accountId}@example.com`;
  const { id } = await createUser(options, target, { email, role: 'admin' });
  await setPassword(options, { ...target, userId: id, email }, PASSWORD);
  const model = new Model();

  const codeOf = (code: Given, secret = model.secret ?? factor.newSecret()): string => {
    if (code === 'wrong') return 'no code';
    if ('recovery' in code) return model.recovery[code.recovery] ?? 'aaaa-aaaa-aaaa-aaaa';
    return codeAt(secret, clock.now() + code.steps * STEP);
  };
  const proofOf = (by: Proof): factor.Proof => {
    if (by === 'password') return { code: '', current_password: PASSWORD };
    if (by === 'wrong password') return { code: '', current_password: `${PASSWORD}.` };
    return { code: codeOf(by), current_password: '' };
  };
  const proves = (by: Proof): boolean => by === 'password' || (by !== 'wrong password' && model.takes(by, clock.now()));
  /** Undefined when it was refused. */
  const result = async <T>(work: Promise<T>): Promise<T | undefined> => {
    try {
      return await work;
    } catch (error) {
      if (error instanceof ValidationError || error instanceof BerthError) return undefined;
      throw error;
    }
  };
  const signIn = async (code: Given): Promise<void> => {
    const { token, awaitsCode } = await database.db
      .transaction()
      .execute((tx) => enter(tx, id, { now: clock.now(), visit: VISIT }));
    assert.equal(awaitsCode, model.secret !== undefined);
    if (!awaitsCode) return void model.live.add(token);
    const session = await sessionOf(options, token, VISIT);
    assert.ok(session?.awaitsCode);
    const text = codeOf(code);
    const isTaken = model.takes(code, clock.now());
    const entered = await result(factor.signInWithCode(options, session, { code: text, visit: VISIT }));
    assert.equal(entered !== undefined, isTaken, `sign in with ${JSON.stringify(code)}`);
    if (entered !== undefined) model.live.add(entered);
  };
  /** By one of the sessions, which goes on. */
  const change = async () => {
    const [token] = model.live;
    const session = token === undefined ? undefined : await sessionOf(options, token, VISIT);
    return { token, by: { ...target, userId: id, ...(session && { keptSession: session.sessionId }) } };
  };

  for (const one of steps) {
    const { token, by } = await change();
    if (one.do === 'wait') clock.advance(one.steps * STEP);
    else if (one.do === 'sign in') await signIn(one.given);
    else if (one.do === 'set up') {
      const secret = factor.newSecret();
      const isTaken = typeof one.given === 'object' && 'steps' in one.given && Math.abs(one.given.steps) <= 1;
      const codes = await result(factor.setUpSecondFactor(options, by, { secret, code: codeOf(one.given, secret) }));
      assert.equal(codes !== undefined, isTaken && model.secret === undefined);
      if (codes && typeof one.given === 'object' && 'steps' in one.given) {
        model.has(secret, codes, Math.floor(clock.now() / STEP) + one.given.steps);
        model.ends(token);
      }
    } else if (one.do === 'renew') {
      const isProved = proofOf(one.proof);
      const allowed = proves(one.proof) && model.secret !== undefined;
      const codes = await result(factor.renewRecoveryCodes(options, by, isProved));
      assert.equal(codes !== undefined, allowed);
      if (codes) model.recovery = codes;
      if (codes) model.ends(token);
    } else if (one.do === 'turn off') {
      const text = proofOf(one.proof);
      const isOn = model.secret !== undefined;
      const isAllowed = proves(one.proof) && !model.isRequired;
      const done = await result(factor.turnOffSecondFactor(options, by, text).then(() => true));
      assert.equal(done === true, isAllowed);
      if (done && isOn) {
        model.secret = undefined;
        model.ends(token);
      }
    } else if (one.do === 'require') {
      await factor.requireSecondFactor(options, target, one.isRequired);
      model.isRequired = one.isRequired;
    } else {
      await factor.resetSecondFactor(options, { ...target, userId: id });
      if (model.secret !== undefined) model.ends();
      model.secret = undefined;
    }
    for (const known of model.live) {
      const session = await sessionOf(options, known, VISIT);
      assert.equal(session?.awaitsCode, false, one.do);
      assert.equal(session.needsSecondFactor, model.isRequired && model.secret === undefined);
    }
    for (const known of model.ended) assert.equal(await sessionOf(options, known, VISIT), undefined, one.do);
    const state = await factor.secondFactorOf(database.reads, id);
    const left = model.recovery.filter((code) => !model.used.has(code)).length;
    assert.deepEqual([state.isOn, state.recoveryCodes], model.secret === undefined ? [false, 0] : [true, left]);
  }
}

test('only users who should log in can, whatever happened before', async () => {
  using files = scratch();
  copyEmptyDatabase(files.config);
  const database = await openDatabase(files.config.database);
  const lives = fc.array(step, { minLength: 5, maxLength: 40, size: 'max' });
  await fc.assert(
    fc.asyncProperty(lives, (steps) => lifeOf(database, steps)),
    { numRuns: 60, endOnFailure: true },
  );
  await database.close();
});
