/** What the dashboard needs beside the others' tables: its users, sums for its overview, and logins (`schema.ts`). */
import type { Generated } from 'kysely';
import type { Micros } from '../clock.ts';

/** What keys and users may do: a member changes nothing about how one gets in. */
export type Role = 'admin' | 'member';

/** People who use the dashboard. Each belongs to one account. */
export interface UsersTable {
  id: string;
  account_id: string;
  /** ASCII in lower case, and one user's alone within the account. */
  email: string;
  role: Role;
  /** Null until a link was used to set one, and for those who come by their company's login alone. */
  password_hash: string | null;
  /** Base32 (RFC 6238); null without a second factor. */
  totp_secret: string | null;
  /** The time step of the last code that was taken: none is taken twice. */
  totp_step: number;
  /** `<issuer> <subject>` of the company's login. */
  oidc_subject: string | null;
  inserted_at: Micros;
  signed_in_at: Micros | null;
  /** The address from which that was. */
  signed_in_from: string | null;
  /** From then on the user gets in by no way. */
  disabled_at: Micros | null;
}

/** Links that set a password, once. */
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
  /** 1: the password was right, and the code of the second factor is still to come. */
  awaits_code: 0 | 1;
  /** Where it was used last, and with what. */
  address: string;
  agent: string;
  inserted_at: Micros;
  seen_at: Micros;
}

/** What still stands in for a code of the second factor, each once. */
export interface RecoveryCodesTable {
  user_id: string;
  /** SHA-256, as hex. */
  hash: string;
}

/** From where a user has signed in (`users/known-networks.ts`). */
export interface UserNetworksTable {
  user_id: string;
  network: string;
  seen_at: Micros;
}

/** Codes that were wrong in a row, and until when the next one has to wait. */
export interface CodeTriesTable {
  user_id: string;
  count: number;
  until: Micros;
}

/** What came in on a day, by the rows of `transfers` that say `uploaded`. */
export interface DailyUploadsTable {
  account_id: string;
  /** Its start in UTC. */
  day: Micros;
  uploads: number;
  bytes: number;
}

/** What the account's directories held when that day was last looked at (`upkeep.ts`). */
export interface DailyStorageTable {
  account_id: string;
  day: Micros;
  bytes: number;
}

/** What came into a directory on a day on which files came or went. */
export interface DirectoryDaysTable {
  directory_id: string;
  /** Its start in UTC. */
  day: Micros;
  uploads: number;
  bytes: number;
  /** What the directory held when that day was last looked at; null when it was not. */
  stored: number | null;
}

/** Logins that sshd refused on a day. */
export interface DailyRefusalsTable {
  account_id: string;
  day: Micros;
  refusals: number;
}

/** The newest logins and refusals of each directory, by sshd's log (`reports/login-log.ts`). */
export interface LoginsTable {
  id: Generated<number>;
  directory_id: string;
  at: Micros;
  kind: 'login' | 'refused';
  address: string | null;
  /** By what, or why not. */
  text: string;
}

/** One row for each machine, once something of its sshd's log was found. */
export interface LoginLogTable {
  node: string;
  /** Until when what it tells is in the tables above. */
  read_until: Micros;
}

export interface UserTables {
  users: UsersTable;
  user_links: UserLinksTable;
  user_sessions: UserSessionsTable;
  recovery_codes: RecoveryCodesTable;
  user_networks: UserNetworksTable;
  code_tries: CodeTriesTable;
  daily_uploads: DailyUploadsTable;
  daily_storage: DailyStorageTable;
  daily_refusals: DailyRefusalsTable;
  directory_days: DirectoryDaysTable;
  logins: LoginsTable;
  login_log: LoginLogTable;
}
