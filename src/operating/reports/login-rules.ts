/**
 * Why a customer cannot log in: what the directory's settings let in, and what to do about a refusal in sshd's log. `berth explain` and
 * the dashboard say the same.
 */
import { formatMicros, type Micros, hasExpired } from '../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../foundation/db/schema.ts';
import type { LoginAttempt } from './sshd-log.ts';

export type LoginSettings = Pick<DirectoryRow, 'suspended' | 'expires_at' | 'allowed_networks' | 'auth_mode'>;

export interface LoginCheck {
  /** Whether this setting lets everybody in, only some, or nobody. */
  readonly lets: 'all' | 'some' | 'nobody';
  /** A sentence without its full stop. */
  readonly text: string;
  /** The time in the text, for those who show it in another zone. */
  readonly at?: Micros;
  /** What to do, as a sentence. */
  readonly remedy?: string;
}

/** Suspension, expiry, networks, method and keys, in the order in which a login meets them. */
export function loginChecks(directory: LoginSettings, { keys, now }: { keys: number; now: Micros }): LoginCheck[] {
  return [
    suspension(directory),
    expiry(directory, now),
    networks(directory),
    method(directory),
    publicKeys(directory, keys),
  ];
}

function suspension({ suspended }: LoginSettings): LoginCheck {
  return suspended === 1
    ? { lets: 'nobody', text: 'The directory is suspended', remedy: 'Resume it.' }
    : { lets: 'all', text: 'The directory is not suspended' };
}

function expiry({ expires_at }: LoginSettings, now: Micros): LoginCheck {
  if (expires_at === null) return { lets: 'all', text: 'It does not expire' };
  const time = `${formatMicros(expires_at).slice(0, 16).replace('T', ' ')} UTC`;
  return hasExpired({ expires_at }, now)
    ? { lets: 'nobody', text: `It expired at ${time}`, at: expires_at, remedy: 'Set a later expiry, or none.' }
    : { lets: 'all', text: `It expires at ${time}` };
}

/** How many networks are named. */
const NAMED = 5;

function networks({ allowed_networks }: LoginSettings): LoginCheck {
  const allowed = JSON.parse(allowed_networks) as string[];
  if (allowed.length === 0) return { lets: 'all', text: 'Logins are allowed from every network' };
  const more = allowed.length > NAMED ? ` and ${allowed.length - NAMED} more` : '';
  return {
    lets: 'some',
    text: `Logins are allowed only from ${allowed.slice(0, NAMED).join(', ')}${more}`,
    remedy: 'Ask for the customer’s public IP address, and add it if it is not in this list.',
  };
}

function method({ auth_mode }: LoginSettings): LoginCheck {
  switch (auth_mode) {
    case 'both':
      return { lets: 'all', text: 'A password or a public key works' };
    case 'password':
      return { lets: 'all', text: 'Password login is on' };
    case 'public_key':
      return { lets: 'some', text: 'Key only: passwords are off' };
  }
}

function publicKeys({ auth_mode }: LoginSettings, keys: number): LoginCheck {
  const count = `${keys} public ${keys === 1 ? 'key' : 'keys'}`;
  if (auth_mode === 'public_key' && keys === 0)
    return {
      lets: 'nobody',
      text: 'No public key has been added',
      remedy: 'Add the customer’s public key, or allow the password.',
    };
  if (auth_mode === 'password' && keys > 0)
    return {
      lets: 'some',
      text: `${count} ${keys === 1 ? 'is' : 'are'} ignored`,
      remedy: 'Allow public keys to use them.',
    };
  return { lets: 'all', text: keys === 0 ? 'No public key has been added' : `${count} can be used` };
}

const NOT_ALLOWED = /not from an allowed network$/;

/** What to do about each reason in sshd's log (`sshd-log.ts`). The reason is at the end of the text. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/suspended$/, 'Resume the directory.'],
  [/expired$/, 'Set a later expiry, or none.'],
  [NOT_ALLOWED, 'Add the address to the allowed addresses.'],
  [/too many connections$/, 'Ask the customer to close other sessions, or raise the limit of connections.'],
  [/wrong password$/, 'Create a new password, and send it to the customer.'],
  [/^unknown key /, 'Add this key if it is the customer’s. Otherwise the client has to use another one.'],
  [/too many tries on one connection$/, 'The client tries too many keys. In OpenSSH, set IdentitiesOnly to yes.'],
  [
    /^no password was sent, and no known key$/,
    'The client did not offer a key that was added here. Check which key it uses, and whether it may use a password.',
  ],
  [
    /no [A-Za-z ]+ in common: the client offers only /,
    'Its algorithms are too old for sshd. Ask the customer to update the client, or its SSH library.',
  ],
  [/refuses as too weak: update the client$/, 'Ask the customer to update the client.'],
];

/** What to do about a refusal, by its text in the log. */
export function remedyFor(refusal: string): string | undefined {
  return REMEDIES.find(([reason]) => reason.test(refusal))?.[1];
}

/** A remedy for somebody who may not change how customers log in. */
export function forMembers(remedy: string): string {
  return remedy
    .replace(/^(?:Add|Allow|Create|Resume|Set) /, (word) => `Ask an admin to ${word.toLowerCase()}`)
    .replace(', and add it if', ', and ask an admin to add it if');
}

/** The address to allow, if the login failed only because of it. */
export function addressToAllow({ text, address }: LoginAttempt): string | undefined {
  return NOT_ALLOWED.test(text) ? (address ?? undefined) : undefined;
}
