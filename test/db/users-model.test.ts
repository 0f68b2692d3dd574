/**
 * Random lives of users against a model: who may sign in, which links work, which sessions are live, and that an account
 * keeps an admin.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fc } from '../support/fast-check.ts';
import { DAY, type Micros } from '../../src/foundation/base/clock.ts';
import type { Role } from '../../src/foundation/db/schema.ts';
import { BerthError, ValidationError } from '../../src/foundation/base/errors.ts';
import { newLink, ownerOfLink } from '../../src/rules/users/password-links.ts';
import { endUserSession, sessionOf } from '../../src/rules/users/sessions.ts';
import { setPassword, setPasswordByLink } from '../../src/rules/users/set-password.ts';
import {
  createUser,
  listUsers,
  removeUser,
  resetPassword,
  setDisabled,
  setRights,
} from '../../src/rules/users/users.ts';
import { scratch } from '../support/scratch.ts';
import { operator } from '../support/users.ts';
import { type UsersPlace, usersPlace } from '../support/users-place.ts';

const EMAILS = ['ann@example.com', 'bob@example.com'] as const;
const WORDS = ['correct horse battery', 'staple battery horse', 'short'] as const;
const VISIT = { address: '192.0.2.1', agent: 'test' };
const MINUTE = DAY / 1440;

const who = fc.constantFrom(...EMAILS);
const word = fc.oneof({ arbitrary: fc.constant(WORDS[0]), weight: 4 }, fc.constantFrom(...WORDS));
const role = fc.constantFrom<Role>('admin', 'member');
const step = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), who, role }),
  fc.record({ kind: fc.constant('set-role' as const), who, role, byOperator: fc.boolean() }),
  fc.record({ kind: fc.constant('disable' as const), who, byOperator: fc.boolean() }),
  fc.record({ kind: fc.constant('enable' as const), who }),
  fc.record({ kind: fc.constant('reset' as const), who }),
  fc.record({ kind: fc.constant('remove' as const), who, byOperator: fc.boolean() }),
  fc.record({ kind: fc.constant('new-link' as const), who }),
  { arbitrary: fc.record({ kind: fc.constant('use-link' as const), link: fc.nat(5), word }), weight: 4 },
  fc.record({ kind: fc.constant('set-password' as const), who, word, goesOn: fc.boolean() }),
  { arbitrary: fc.record({ kind: fc.constant('sign-in' as const), who, word }), weight: 4 },
  fc.record({ kind: fc.constant('sign-out' as const), session: fc.nat(9) }),
  fc.record({ kind: fc.constant('wait' as const), minutes: fc.constantFrom(1, 10, 719, 721, 1439, 1441, 44_000) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Person {
  id: string;
  role: Role;
  isDisabled: boolean;
  password: string | undefined;
  link: { token: string; until: Micros } | undefined;
  sessions: { token: string; made: Micros; seen: Micros }[];
}

class World {
  readonly #place: UsersPlace;
  readonly #account: string;
  readonly #people = new Map<string, Person>();
  /** Every link and session that there ever was. */
  readonly #links: string[] = [];
  readonly #sessions: string[] = [];

  constructor(place: UsersPlace, account: string) {
    this.#place = place;
    this.#account = account;
  }

  async take(taken: Step): Promise<void> {
    if (taken.kind === 'wait') return this.#place.clock.advance(taken.minutes * MINUTE);
    if (taken.kind === 'use-link') return this.#useLink(taken);
    if (taken.kind === 'sign-out') return this.#signOut(this.#sessions[taken.session]);
    if (taken.kind === 'sign-in') return this.#signIn(taken);
    const person = this.#people.get(taken.who);
    if (taken.kind === 'create') return this.#create(taken, person);
    if (taken.kind === 'set-password') return person && this.#setPassword(taken, person);
    await this.#change(taken, person);
  }

  async #create({ who: email, role: given }: { who: string; role: Role }, person: Person | undefined): Promise<void> {
    const creating = createUser(this.#place, operator(this.#account), { email, role: given });
    if (person) return assert.rejects(creating, ValidationError);
    const { id, token } = await creating;
    const made: Person = { id, role: given, isDisabled: false, password: undefined, link: undefined, sessions: [] };
    this.#people.set(email, made);
    this.#linked(made, token);
  }

  async #change(
    taken: Extract<Step, { kind: 'set-role' | 'disable' | 'enable' | 'reset' | 'remove' | 'new-link' }>,
    person: Person | undefined,
  ): Promise<void> {
    const { kind } = taken;
    const id = person?.id ?? 'nobody';
    const mayLeaveNoAdmin = 'byOperator' in taken && taken.byOperator;
    const target = { ...operator(this.#account), userId: id, ...(mayLeaveNoAdmin && { mayLeaveNoAdmin }) };
    const made = (): Promise<unknown> => {
      if (kind === 'set-role') return setRights(this.#place, target, { role: taken.role });
      if (kind === 'disable' || kind === 'enable') return setDisabled(this.#place, target, kind === 'disable');
      if (kind === 'remove') return removeUser(this.#place, target);
      if (kind === 'reset') return resetPassword(this.#place, target);
      const { database, clock } = this.#place;
      return database.db.transaction().execute((tx) => newLink(tx, id, clock.now()));
    };
    const refused = (code: string) =>
      assert.rejects(made, (error) => error instanceof BerthError && error.code === code);
    if (!person) return kind === 'new-link' ? undefined : refused('user_not_found');
    const takesAdmin = kind === 'remove' || kind === 'disable' || (kind === 'set-role' && taken.role === 'member');
    const isLast = this.#admins().every((admin) => admin === person) && this.#admins().includes(person);
    if (takesAdmin && isLast && !mayLeaveNoAdmin) return refused('last_admin');

    const result = await made();
    if (kind === 'remove') return void this.#people.delete(taken.who);
    if (kind === 'new-link') return this.#linked(person, result as string);
    const before = JSON.stringify([person.role, person.isDisabled]);
    if (kind === 'set-role') person.role = taken.role;
    if (kind === 'disable' || kind === 'enable') person.isDisabled = kind === 'disable';
    if (kind === 'reset') {
      person.password = undefined;
      this.#linked(person, result as string);
    }
    if (kind === 'reset' || JSON.stringify([person.role, person.isDisabled]) !== before) person.sessions = [];
  }

  async #useLink({ link, word: password }: { link: number; word: string }): Promise<void> {
    const token = this.#links.at(-1 - link) ?? 'nothing';
    const person = [...this.#people.values()].find((one) => one.link?.token === token && this.#works(one));
    const request = { visit: VISIT, requestId: 'test', route: 'test' };
    const setting = setPasswordByLink(this.#place, { token, password }, request);
    if (person && password === 'short') return assert.rejects(setting, ValidationError);
    const entered = await setting;
    assert.equal(entered !== undefined, person !== undefined, `link ${link}`);
    if (!person || !entered) return;
    person.password = password;
    person.link = undefined;
    person.sessions = [];
    this.#entered(person, entered.token);
  }

  async #setPassword({ word: password, goesOn }: { word: string; goesOn: boolean }, person: Person): Promise<void> {
    const [email = ''] = [...this.#people].find(([, one]) => one === person) ?? [];
    const kept = goesOn ? person.sessions[0] : undefined;
    const asking = kept && (await this.#session(kept.token));
    const target = { ...operator(this.#account), userId: person.id, email };
    const setting = setPassword(this.#place, asking ? { ...target, keptSession: asking.sessionId } : target, password);
    if (password === 'short') return assert.rejects(setting, ValidationError);
    await setting;
    person.password = password;
    person.link = undefined;
    person.sessions = person.sessions.filter((session) => asking && session === kept);
  }

  async #signIn({ who: email, word: password }: { who: string; word: string }): Promise<void> {
    const person = this.#people.get(email);
    const entered = await this.#place.signIn({ email: email.toUpperCase(), password }, VISIT);
    const may = person?.password === password && !person.isDisabled;
    assert.equal(entered !== undefined, may, `${email} with ${password}`);
    assert.ok(!entered || 'token' in entered);
    if (entered && person) this.#entered(person, entered.token);
  }

  async #signOut(token: string | undefined): Promise<void> {
    const found = token === undefined ? undefined : await this.#session(token);
    if (!found) return;
    await endUserSession(this.#place.database.db, found.userId, found.sessionId);
    for (const person of this.#people.values())
      person.sessions = person.sessions.filter((session) => session.token !== token);
  }

  /** Every session and every link that there ever was is what the model says. */
  async check(): Promise<void> {
    const now = this.#place.clock.now();
    for (const person of this.#people.values()) {
      person.sessions = person.sessions.filter(({ made, seen }) => now - seen < DAY / 2 && now - made < 30 * DAY);
    }
    for (const token of this.#sessions) {
      const [email, person] =
        [...this.#people].find(([, { sessions }]) => sessions.some((one) => one.token === token)) ?? [];
      const found = await this.#session(token);
      assert.deepEqual([found?.email, found?.principal.role], [email, person?.role]);
      const kept = person?.sessions.find((one) => one.token === token);
      if (kept && now - kept.seen > 5 * MINUTE) kept.seen = now;
    }
    for (const token of this.#links) {
      const owner = await ownerOfLink(this.#place.database.reads, token, now);
      const expected = [...this.#people.values()].find((one) => one.link?.token === token && this.#works(one));
      assert.equal(owner?.userId, expected?.id);
    }
    const listed = await listUsers(this.#place.database.reads, this.#account);
    assert.deepEqual(
      listed.map(({ email, role: has, disabled_at }) => [email, has, disabled_at !== null]),
      EMAILS.flatMap((email) => {
        const one = this.#people.get(email);
        return one ? [[email, one.role, one.isDisabled]] : [];
      }),
    );
  }

  #session(token: string) {
    return sessionOf(this.#place, token, VISIT);
  }

  #works({ link, isDisabled }: Person): boolean {
    return link !== undefined && link.until > this.#place.clock.now() && !isDisabled;
  }

  #linked(person: Person, token: string): void {
    person.link = { token, until: this.#place.clock.now() + DAY };
    this.#links.push(token);
  }

  #entered(person: Person, token: string): void {
    assert.ok(!this.#sessions.includes(token), 'no token comes twice');
    const now = this.#place.clock.now();
    person.sessions.push({ token, made: now, seen: now });
    this.#sessions.push(token);
  }

  #admins(): Person[] {
    return [...this.#people.values()].filter((one) => one.role === 'admin' && !one.isDisabled);
  }
}

test('random changes of users: those who may get in do, and nobody else', async () => {
  using files = scratch();
  await using place = await usersPlace(files);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }), async (steps) => {
      await place.database.db.deleteFrom('users').execute();
      const world = new World(place, await place.account());
      for (const one of steps) {
        await world.take(one);
        await world.check();
      }
    }),
    { numRuns: 80 },
  );
});
