/** The dashboard's own tables: users, sums for its overview, and logins (`schema.ts`). */
import type { Generated } from 'kysely';
import type { Micros } from '../base/clock.ts';

/** A member may not change who can log in, or how. */
export type Role = 'admin' | 'member';

/** People who use the dashboard. Each belongs to one account. */
export interface UsersTable {
  id: string;
  account_id: string;
  /** ASCII in lower case, unique within the account. */
  email: string;
  role: Role;
  /** Null until the user has set a password, and for users who only use their company's login. */
  password_hash: string | null;
  /** Base32 (RFC 6238); null without a second factor. */
  totp_secret: string | null;
  /** The time step of the last accepted code. A code is never accepted twice. */
  totp_step: number;
  /** The user's `<issuer> <subject>` in the company's login. */
  oidc_subject: string | null;
  inserted_at: Micros;
  signed_in_at: Micros | null;
  /** The address of that sign-in. */
  signed_in_from: string | null;
  /** From this time on, the user cannot sign in at all. */
  disabled_at: Micros | null;
  /** 1: the user may only read. */
  read_only: Generated<0 | 1>;
  /** JSON text: the ids of the directories that the user is limited to; null for all of the account. */
  directories: Generated<string | null>;
}

/** Links by which a user can set a password once. */
export interface UserLinksTable {
  /** SHA-256 of the token in the link, as hex. */
  hash: string;
  user_id: string;
  expires_at: Micros;
}

export interface UserSessionsTable {
  id: string;
  /** SHA-256 of the token in the cookie, as hex. */
  hash: string;
  user_id: string;
  /** 1: the password was right, but the code of the second factor is still missing. */
  awaits_code: 0 | 1;
  /** The address and the client of its last use. */
  address: string;
  agent: string;
  inserted_at: Micros;
  seen_at: Micros;
}

/** Unused recovery codes: each replaces a code of the second factor once. */
export interface RecoveryCodesTable {
  user_id: string;
  /** SHA-256, as hex. */
  hash: string;
}

/** The networks from which a user has signed in (`users/sign-in.ts`). */
export interface UserNetworksTable {
  user_id: string;
  network: string;
  seen_at: Micros;
}

/** How many codes were wrong in a row, and until when the next attempt has to wait. */
export interface CodeTriesTable {
  user_id: string;
  count: number;
  until: Micros;
}

/** Totals of an account's day (`history/daily-totals.ts`). Older versions wrote those of directories, too. */
export interface DailyTotalsTable {
  /** The id of the account. */
  owner_id: string;
  /**
   * `uploads`: the transfers with the event `uploaded`.
   * `storage`: what the directories hold, as last measured on that day. `refusals`: logins that sshd refused.
   */
  kind: 'uploads' | 'storage' | 'refusals';
  /** The start of the day in UTC. */
  day: Micros;
  /** How many uploads or refusals; 0 for storage. */
  count: number;
  /** The size of the uploads or of what is stored; 0 for refusals. */
  bytes: number;
}

/** The newest logins and refusals of each directory, by sshd's log (`reports/login-log.ts`). */
export interface LoginsTable {
  id: Generated<number>;
  directory_id: string;
  /** Null for logins that a node with an older berth has written. */
  account_id: Generated<string | null>;
  at: Micros;
  kind: 'login' | 'refused';
  address: string | null;
  /** The key or method of the login, or the reason of the refusal. */
  text: string;
}

/** A row for each machine, once part of its sshd's log has been read. */
export interface LoginLogTable {
  node: string;
  /** Log entries up to this time are in the tables above. */
  read_until: Micros;
}

export interface UserTables {
  users: UsersTable;
  user_links: UserLinksTable;
  user_sessions: UserSessionsTable;
  recovery_codes: RecoveryCodesTable;
  user_networks: UserNetworksTable;
  code_tries: CodeTriesTable;
  daily_totals: DailyTotalsTable;
  logins: LoginsTable;
  login_log: LoginLogTable;
}
