/**
 * The tables, which `migrations/` creates. Times are µs since 1970, ids are UUIDs, and everything works in both SQL
 * dialects.
 */
import type { NodeTables } from './schema-nodes.ts';
import type { Generated, GeneratedAlways, Selectable } from 'kysely';
import type { Micros } from '../base/clock.ts';

export type Plan = 'free' | 'starter' | 'pro' | 'business';
export type AuthMode = 'password' | 'public_key' | 'both';

export interface AccountsTable {
  id: string;
  name: string;
  plan: Plan;
  inserted_at: Micros;
  /**
   * Set by `berth account delete`. The account's keys are refused at once. The row is removed once its directories are
   * gone.
   */
  deleted_at: Micros | null;
  /** The actor of the deletion, as in the audit. */
  deleted_by: string | null;
  /** Since when the account's users need a second factor for the dashboard; null if they do not. */
  second_factor_required_at: Micros | null;
  /** Like `directories.events`, for directories without their own; null for uploads only. */
  events: string | null;
}

export interface ApiKeysTable {
  id: string;
  account_id: string;
  name: string;
  role: Role;
  /** SHA-256 of the whole key, lowercase hex. The key itself is never stored. */
  hash: string;
  inserted_at: Micros;
  last_used_at: Micros | null;
  revoked_at: Micros | null;
  /** The key's creator, as in the audit; null for keys from older versions. */
  created_by: string | null;
  /** From this time on, the key is refused; null for never. */
  expires_at: Generated<Micros | null>;
  /** 1: the key may only read. */
  read_only: Generated<0 | 1>;
  /** JSON text: the ids of the directories that the key is limited to; null for all of the account. */
  directories: Generated<string | null>;
}

/** Every username and UID ever given out. Rows are never removed, so neither is used twice. */
export interface PrincipalsTable {
  uid: number;
  username: string;
}

export interface DirectoriesTable {
  id: string;
  account_id: string;
  name: string;
  description: string | null;
  slug: string;
  external_id: string | null;
  /** JSON text, as the caller gave it. */
  metadata: string;
  /** The node that has its jail. */
  node: Generated<string>;
  /** Counts the directory's changes, because the clocks of several machines cannot put them in order. */
  version: Generated<number>;
  sftp_host: string;
  sftp_port: number;
  sftp_username: string;
  uid: number;
  /**
   * A crypt(3) hash. It is kept while the mode does not use it, so that the password works again after a return to
   * `password`.
   */
  password_hash: string;
  webhook_url: string | null;
  /** 0: without a `webhook_url` the directory sends no webhooks, even if its account has one. */
  uses_account_webhook: 0 | 1;
  webhook_secret: string;
  /** The secret that will replace the present one. Until then `webhook-signature` carries both. */
  next_webhook_secret: string | null;
  max_connections: number;
  /** The sum of `files.size_bytes`, updated in the transactions that change it. */
  storage_bytes: number;
  retention_days: number;
  auth_mode: AuthMode;
  /**
   * The lines of `public_keys`, newest first, as sshd reads them: type and base64, no options, no comment. Updated in
   * the transactions that change `public_keys`, like the next column, the fingerprint of the newest key.
   */
  public_key: string | null;
  public_key_fingerprint: string | null;
  /** 1: nobody can log in. */
  suspended: 0 | 1;
  /** From this time on, nobody can log in. */
  expires_at: Micros | null;
  /** JSON text: the CIDRs from which a login is allowed; an empty list means from everywhere. */
  allowed_networks: string;
  /** JSON text: the events that the directory has chosen besides `file.uploaded`; null for its account's choice. */
  events: string | null;
  /** The kernel's quota for the directory's UID, in bytes; null for no limit. */
  quota_bytes: number | null;
  inserted_at: Micros;
  updated_at: Micros;
  /** Set by DELETE. The row is removed with the jail; until then only the clean-up sees it. */
  deleted_at: Micros | null;
  /** The time of the latest upload; 0 for none. */
  last_upload_at: Generated<Micros>;
  /** The text that searches use. */
  search: GeneratedAlways<string>;
}

/** A directory, without what only lists and searches use. */
export type DirectoryRow = Omit<Selectable<DirectoriesTable>, 'last_upload_at' | 'search'>;

export interface PublicKeysTable {
  directory_id: string;
  /** `SHA256:` and base64. */
  fingerprint: string;
  type: string;
  comment: string | null;
  /** Type and base64. */
  line: string;
  inserted_at: Micros;
  last_used_at: Micros | null;
}

/**
 * `uploaded`: complete and announced, as in the list of uploads. `waiting`: closed under a temporary name.
 * `partial`: its connection died, or nothing proves that it is complete. `placed`: the API has put it there for the customer.
 * `checking`: complete, and announced once its name has settled and it has passed the check (checks/).
 * `removed`: berth has removed it, and takes it from the disk once its session does not ask for it any more
 * (files/deferred-removal.ts). Nothing lists it, and it does not count in `storage_bytes`.
 */
export type FileState = 'uploaded' | 'waiting' | 'partial' | 'placed' | 'checking' | 'removed';

export interface FilesTable {
  /** The upload's id, new with each upload of the same name. */
  id: string;
  directory_id: string;
  /** The bytes of the path below `files/`, without a leading slash. Not always UTF-8. */
  path: Buffer;
  size_bytes: number;
  state: FileState;
  /** When the upload was complete, by the server's clock; for a partial file, when it was dropped. */
  uploaded_at: Micros;
  /**
   * From lstat when the row was written, so that a changed file can be recognized. Negative in a restored backup
   * (`unknownInode`) and for a file that was never seen (`UNKNOWN_INODE`).
   */
  inode: number;
  mtime: Micros;
  /**
   * When the kernel had last changed the file. No client can set it. Null in rows from older versions, and for a file
   * that was never seen.
   */
  ctime: Micros | null;
  /**
   * For a file in check that was complete before and may have changed since: the state that it returns to once it has
   * passed, without being announced again. Otherwise null.
   */
  returns_to: 'uploaded' | 'placed' | null;
  /** Since when the file has had its name, its folders' included; 0 if that is not known, or must not be waited for. */
  named_at: Generated<Micros>;
  /** For a file in check: why the last attempt to check it failed; null before that, and in every other state. */
  check_failure: string | null;
  /** `log`: sshd logged the close. `disk`: a stable file was found. */
  source: 'log' | 'disk';
  /** For a waiting file: the process whose session closed it, so that the session's end announces it. */
  session_pid: number | null;
}

/** `webhooks/queue.ts` says what each state means and who changes it. */
export type DeliveryState = 'queued' | 'running' | 'waiting' | 'delivered' | 'failed';

/** The outbox. The body is fixed here; the URL and the secrets are read from the directory at each attempt. */
export interface DeliveriesTable {
  id: string;
  directory_id: string;
  account_id: string;
  /**
   * The id in `files` of the delivery's file. Null in rows from older versions, and for a file that never got a row.
   */
  upload_id: string | null;
  /** The URL of the latest attempt; before the first, the URL when the row was written. */
  url: string;
  /** `<account id> <origin>`: deliveries to one destination share its turn. */
  destination: string;
  /** The exact bytes that every attempt sends. */
  body: Buffer;
  state: DeliveryState;
  /** How many attempts have begun, 0 to 4. While an attempt runs, its number identifies the lease. */
  attempts: number;
  inserted_at: Micros;
  /**
   * `queued`: since when the delivery is due. `waiting`: when it will be due. `running`: when the lease ends. Otherwise
   * null.
   */
  due_at: Micros | null;
  finished_at: Micros | null;
  /** `test`: one attempt that a user requested, stored with its result. Only the dashboard lists it. */
  event: Generated<DeliveryEvent>;
  /** When a replay was requested that is not in the outbox yet; otherwise null. */
  replay_at: Micros | null;
  /** The id of the latest replay. A request that replays many deliveries skips those that have one. */
  replayed_as: string | null;
}

export type DeliveryRow = Selectable<DeliveriesTable>;

export interface AttemptsTable {
  delivery_id: string;
  /** 1 to 4. */
  number: number;
  started_at: Micros;
  /** Null while the attempt runs. */
  finished_at: Micros | null;
  status: number | null;
  latency_us: number | null;
  error: string | null;
  /** The first 1 KiB of the response's body. */
  response: Buffer | null;
}

/**
 * `uploaded`: complete, as in the webhook. `upload-dropped`, `download-dropped`: the handle ended without a close.
 * `received`: complete, but its name has to settle or it has to be checked before it is announced; `uploaded` or `rejected` follows.
 * `refused`: sshd refused a request.
 * The names of the other events explain themselves.
 */
export const TRANSFER_EVENTS = [
  'session-opened',
  'session-closed',
  'received',
  'rejected',
  'uploaded',
  'upload-dropped',
  'downloaded',
  'download-dropped',
  'renamed',
  'removed',
  'refused',
] as const;

export type TransferEvent = (typeof TRANSFER_EVENTS)[number];

/** The history of SFTP, kept for a limited time. Rows have no foreign keys, since directories may be deleted. */
export interface TransfersTable {
  /** In the order in which rows were committed. */
  id: Generated<number>;
  at: Micros;
  event: TransferEvent;
  directory_id: string;
  account_id: string;
  username: string;
  /** The client's address; null when not a session but an administrator or retention did it. */
  address: string | null;
  /** The process that served the session. */
  session_pid: number | null;
  /** The path as text, with U+FFFD for bytes that are not UTF-8. */
  path: string | null;
  /** For a rename: the path before it. */
  from_path: string | null;
  bytes: number | null;
  /** When the file was opened or, for `session-closed`, when the session began; null when that is unknown. */
  began_at: Micros | null;
  /** The checker's reason for rejecting the file, why sshd refused a request, or `retention (30 days)` for what berth removed. */
  reason: string | null;
  /** `link`: the transfer used HTTPS and a link. Null for SFTP. */
  via: 'link' | null;
}

/** The kinds of events that can be announced: `file.uploaded` always, the others when chosen. */
export const EVENT_KINDS = [
  'file.uploaded',
  'file.deleted',
  'file.renamed',
  'file.downloaded',
  'file.rejected',
  'upload.failed',
  'login.refused',
] as const;

export type EventKind = (typeof EVENT_KINDS)[number];

/** What a delivery is about. */
export type DeliveryEvent = EventKind | 'test';

/** The feed of an account (`history/events.ts`). Rows have no foreign keys, like those of `transfers`. */
export interface EventsTable {
  id: Generated<number>;
  account_id: string;
  /** 1, 2, 3, … within the account; null until somebody reads the feed. */
  sequence: number | null;
  at: Micros;
  /** `erased`: the names in the event were erased (`history/removal.ts`). */
  event: EventKind | 'erased';
  directory_id: string;
  /** The upload's id, as in `deliveries.upload_id`. */
  upload_id: string | null;
  /** JSON text: the body of the webhook. */
  body: string;
}

/** The highest event number given out in an account. */
export interface EventSequencesTable {
  account_id: string;
  last: number;
}

/** The URL and the secrets for webhooks of directories without a URL of their own. */
export interface AccountWebhooksTable {
  account_id: string;
  url: string | null;
  secret: string;
  /** The secret that will replace the present one, as in `directories.next_webhook_secret`. */
  next_secret: string | null;
}

export type AuditAction =
  | 'create'
  | 'undo-create'
  | 'update'
  | 'delete'
  | 'put-file'
  | 'remove-file'
  | 'replay'
  | 'announce'
  | 'announce-partial'
  | 'release-file'
  | 'create-link'
  | 'revoke-link'
  | 'open-link'
  | 'test'
  | 'show-secret'
  | 'create-key'
  | 'revoke-key'
  | 'create-user'
  | 'update-user'
  | 'remove-user'
  | 'update-account'
  | 'erase';

/** Changes through the API or the dashboard, written in the transaction of the change. */
export interface AuditTable {
  id: Generated<number>;
  at: Micros;
  action: AuditAction;
  account_id: string;
  key_id: string;
  request_id: string;
  /** The method and path pattern of the request. */
  route: string;
  /** Empty, like the username, for a change of the account: its keys or its users. */
  directory_id: string;
  username: string;
  /** JSON: the name of each changed field, with its old and new value where these may be shown. */
  changes: string;
}

/**
 * Files that the API puts into a directory, with the inode and size that they will have. A row is written before its file appears, so
 * that the file is not taken for an SFTP upload, and is removed when the file is recorded. A row whose file never appeared matches no
 * other file, and is removed after a while.
 */
export interface PlacementsTable {
  directory_id: string;
  inode: number;
  mtime: Micros;
  size_bytes: number;
  inserted_at: Micros;
  /** `link`: the file is uploaded with a link. Null for a file from the API, which is no upload. */
  via: Generated<'link' | null>;
  /** The client's address, for an upload by link. */
  address: Generated<string | null>;
  /**
   * 1: an upload by link that has arrived. The row stays for a while, so that an older line of the log is not taken for it.
   */
  recorded: Generated<0 | 1>;
  /** The link that works once and is used up by this file. If the file never appears, the link works again. */
  link_id: Generated<string | null>;
}

/** Links for people without an SFTP client (links/). A row is removed some time after its link has expired. */
export interface LinksTable {
  id: string;
  directory_id: string;
  /** SHA-256 of the token in the link's URL. */
  hash: string;
  kind: 'download' | 'upload' | 'password';
  /** The file's path in the directory, as in `files.path`. For a folder, the folder's; empty for the top one, and for a password. */
  path: Buffer;
  /** 1: an upload link that takes files of any name into the folder. */
  is_folder: 0 | 1;
  /** The largest upload, in bytes; null for a download. */
  max_bytes: number | null;
  /** 1: it works once. */
  once: 0 | 1;
  expires_at: Micros;
  inserted_at: Micros;
  /** The `keyId` of the actor that made it, as in the audit. */
  created_by: string | null;
  /** When a link that works once was used. */
  used_at: Micros | null;
  /** 1: downloads that have begun are the use. */
  pending: Generated<0 | 1>;
  /** For a download that works once: JSON, the entity tag of the file and the parts of it that were sent (links/progress.ts). */
  sent: string | null;
  /** JSON: the parts that requests are being sent; null for none. */
  sending: string | null;
  /** The directory's password, encrypted with the token (links/password.ts), until it is shown. */
  password: Buffer | null;
}

/**
 * Files that the checker has rejected, in a folder of berth's own. A row is removed with its file, or when the file
 * becomes an upload after all.
 */
export interface QuarantineTable {
  /** The upload's id, which is also the file's name in that folder. */
  id: string;
  directory_id: string;
  /** The machine that has the file. */
  node: string;
  /** The file's path in the directory, as in `files.path`. */
  path: Buffer;
  size_bytes: number;
  inode: number;
  mtime: Micros;
  /** The checker's reason. */
  reason: string;
  rejected_at: Micros;
  /** Set when an operator has released the file: it goes back to its path and is announced. */
  released_at: Micros | null;
}

/** Responses stored for an Idempotency-Key, for 24 h. */
export interface KeptAnswersTable {
  /** Derived from the API key and the Idempotency-Key, like the key that encrypts the response. */
  id: string;
  account_id: string;
  /** A keyed hash of the request. */
  request: string;
  /** Encrypted (`history/stored-responses.ts`). */
  answer: Buffer;
  inserted_at: Micros;
}

/** A single row. */
export interface ClockTable {
  /** The last known wall time; 0 for none. */
  seen_at: Micros;
  /** How far the clock was ahead of the time that had passed (`clock-lead.ts`). */
  lead: Micros;
}

/** How much is stored for each account's Idempotency-Keys. */
export interface KeptAnswerTotalsTable {
  account_id: string;
  bytes: number;
}

export interface Tables extends UserTables, NodeTables {
  accounts: AccountsTable;
  api_keys: ApiKeysTable;
  principals: PrincipalsTable;
  directories: DirectoriesTable;
  public_keys: PublicKeysTable;
  files: FilesTable;
  deliveries: DeliveriesTable;
  attempts: AttemptsTable;
  transfers: TransfersTable;
  events: EventsTable;
  event_sequences: EventSequencesTable;
  account_webhooks: AccountWebhooksTable;
  quarantine: QuarantineTable;
  audit: AuditTable;
  placements: PlacementsTable;
  links: LinksTable;
  kept_answers: KeptAnswersTable;
  kept_answer_totals: KeptAnswerTotalsTable;
  clock: ClockTable;
}

// The dashboard's own tables: users, sums for its overview, and logins.

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
