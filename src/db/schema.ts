/** The tables, which `migrations/` makes. Times are µs since 1970, ids are UUIDs, and nothing is one SQL dialect's alone. */
import type { Generated, GeneratedAlways } from 'kysely';
import type { Micros } from '../clock.ts';
import type { AtHome, NodeTables } from './schema-nodes.ts';
import type { Role, UserTables } from './schema-users.ts';

export type Plan = 'free' | 'starter' | 'pro' | 'business';
export type { Role } from './schema-users.ts';
export type AuthMode = 'password' | 'public_key' | 'both';

export interface AccountsTable {
  id: string;
  name: string;
  plan: Plan;
  inserted_at: Micros;
  /** Set by `berth account delete`. Its keys are refused at once; the row goes when its directories have gone. */
  deleted_at: Micros | null;
  /** Who asked for that, as the audit names it. */
  deleted_by: string | null;
  /** Since when its users need a second factor for the dashboard; null while they do not. */
  second_factor_required_at: Micros | null;
  /** As `directories.events`, for directories that say nothing; null for no events but uploads. */
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
  /** As the audit names who made it; null for keys of an earlier berth. */
  created_by: string | null;
  /** From then on it is refused; null means never. */
  expires_at: Generated<Micros | null>;
  /** 1: it changes nothing. */
  read_only: Generated<0 | 1>;
  /** JSON text: the ids of the only directories that exist for it; null means all of the account. */
  directories: Generated<string | null>;
}

/** Every username and UID ever given out. Rows are never removed, so neither is used twice. */
export interface PrincipalsTable {
  uid: number;
  username: string;
}

export interface DirectoriesTable extends AtHome {
  id: string;
  account_id: string;
  name: string;
  description: string | null;
  slug: string;
  external_id: string | null;
  /** JSON text, as the caller gave it. */
  metadata: string;
  sftp_host: string;
  sftp_port: number;
  sftp_username: string;
  uid: number;
  /** crypt(3) hash; kept while the mode does not use it, so that going back to `password` revives it. */
  password_hash: string;
  webhook_url: string | null;
  /** 0: without a `webhook_url` it sends no webhooks, although its account has one. */
  uses_account_webhook: 0 | 1;
  webhook_secret: string;
  /** The one that is to follow: until then `webhook-signature` carries both. */
  next_webhook_secret: string | null;
  /** Signs the links of the directory (links/); null until there is one. */
  link_secret: string | null;
  max_connections: number;
  /** The sum of `files.size_bytes`, kept by the same transactions that change it. */
  storage_bytes: number;
  retention_days: number;
  auth_mode: AuthMode;
  /**
   * The lines of `public_keys`, newest first, as sshd reads them: type and base64, no options, no comment. Kept by the
   * transactions that change those, as is the next, the fingerprint of the newest.
   */
  public_key: string | null;
  public_key_fingerprint: string | null;
  /** 1: nobody gets in. */
  suspended: 0 | 1;
  /** From then on nobody gets in. */
  expires_at: Micros | null;
  /** JSON text: CIDRs from which one gets in; an empty list means from everywhere. */
  allowed_networks: string;
  /** JSON text: the events that it asks for beside `file.uploaded`; null means those of its account. */
  events: string | null;
  /** What the kernel lets the directory's UID hold, in bytes; null for no limit. */
  quota_bytes: number | null;
  inserted_at: Micros;
  updated_at: Micros;
  /** Set by DELETE. The row goes when the jail has gone; until then nothing but the clean-up sees it. */
  deleted_at: Micros | null;
}

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
 * `uploaded`: complete and announced, what the uploads list shows. `waiting`: closed under a temporary name.
 * `partial`: its connection died, or it was seen incomplete. `placed`: the API has put it there, for the customer.
 * `checking`: complete, and announced once it has passed the check (checks/).
 */
export type FileState = 'uploaded' | 'waiting' | 'partial' | 'placed' | 'checking';

export interface FilesTable {
  /** The upload's id, new with each upload of the same name. */
  id: string;
  directory_id: string;
  /** The bytes of the path below `files/`, without a leading slash. Not always UTF-8. */
  path: Buffer;
  size_bytes: number;
  state: FileState;
  /** When the upload was complete, by the server's clock; for a partial file, when it was cut off. */
  uploaded_at: Micros;
  /**
   * What lstat said when the row was written: tells a changed file from one already recorded. Below 0 in a restored
   * backup (`unknownInode`).
   */
  inode: number;
  mtime: Micros;
  /** `log`: sshd said that it was closed. `disk`: it was found at rest. */
  source: 'log' | 'disk';
  /** For a waiting file: the process whose session closed it, so that the session's end announces it. */
  session_pid: number | null;
}

/** `webhooks/queue.ts` says what each state means and who changes it. */
export type DeliveryState = 'queued' | 'running' | 'waiting' | 'delivered' | 'failed';

/** The outbox. What is sent is fixed here; where it goes and how it is signed is read from the directory at each attempt. */
export interface DeliveriesTable {
  id: string;
  directory_id: string;
  account_id: string;
  /** The row of `files` that it tells about. Null in rows of an earlier berth, and for a file that never got a row. */
  upload_id: string | null;
  /** Where the latest attempt went; before the first, where it was to go when the row was written. */
  url: string;
  /** `<account id> <origin>`: deliveries to one destination share its turn. */
  destination: string;
  /** The exact bytes of every attempt. */
  body: Buffer;
  state: DeliveryState;
  /** Attempts begun, 0 to 4. While one runs, its number names the lease: nobody else can hold the same. */
  attempts: number;
  inserted_at: Micros;
  /** `queued`: since when it is due. `waiting`: when it will be. `running`: when the lease ends. Else null. */
  due_at: Micros | null;
  finished_at: Micros | null;
  event: EventKind;
  /** When a replay of it was asked for that is not in the outbox yet. */
  replay_at: Micros | null;
  /** The id of its latest replay: many are replayed at once, each at most once. */
  replayed_as: string | null;
}

export interface AttemptsTable {
  delivery_id: string;
  /** 1 to 4. */
  number: number;
  started_at: Micros;
  /** Null while it runs, and for good when the process died in it. */
  finished_at: Micros | null;
  status: number | null;
  latency_us: number | null;
  error: string | null;
  /** The first 1 KiB of the response's body. */
  response: Buffer | null;
}

/**
 * `uploaded`: complete, as the webhook says. `upload-dropped`, `download-dropped`: the handle went without a close.
 * `received`: complete, and to be checked before it is announced; `uploaded` or `rejected` follows.
 * The others are what their names say.
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
] as const;

export type TransferEvent = (typeof TRANSFER_EVENTS)[number];

/** What happened over SFTP, kept for a while. Complete in itself, since directories go. */
export interface TransfersTable {
  /** In the order in which rows were committed. */
  id: Generated<number>;
  at: Micros;
  event: TransferEvent;
  directory_id: string;
  account_id: string;
  username: string;
  /** Null when no session did it: an administrator, or retention. */
  address: string | null;
  /** The process that served the session. */
  session_pid: number | null;
  /** As text, bytes that are not UTF-8 replaced. */
  path: string | null;
  /** For a rename: what it was called before. */
  from_path: string | null;
  bytes: number | null;
  /** When the file, or for `session-closed` the session, was opened; null when nobody saw it. */
  began_at: Micros | null;
  /** What the checker said of a file that it rejected. */
  reason: string | null;
  /** `link`: it came or went by HTTPS, with a signed link. Null for SFTP. */
  via: 'link' | null;
}

/** What happens in directories and can be announced. `file.uploaded` always is, the others where somebody asks for them. */
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

/** What an account can follow (`history/events.ts`). Complete in itself, as transfers are. */
export interface EventsTable {
  id: Generated<number>;
  account_id: string;
  /** 1, 2, 3, … in its account; null until somebody reads. */
  sequence: number | null;
  at: Micros;
  /** `erased`: its names were (`history/erase.ts`). */
  event: EventKind | 'erased';
  directory_id: string;
  /** As `deliveries.upload_id`. */
  upload_id: string | null;
  /** JSON text: what its webhook says. */
  body: string;
}

/** The highest number of an event that was given out in the account. */
export interface EventSequencesTable {
  account_id: string;
  last: number;
}

/** Where webhooks of directories go that have no URL of their own, and how those are signed. */
export interface AccountWebhooksTable {
  account_id: string;
  url: string | null;
  secret: string;
  /** As `directories.next_webhook_secret`. */
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
  | 'test'
  | 'show-secret'
  | 'create-key'
  | 'revoke-key'
  | 'create-user'
  | 'update-user'
  | 'remove-user'
  | 'update-account'
  | 'erase';

/** What was changed through the API or the dashboard, in the transaction of the change. */
export interface AuditTable {
  id: Generated<number>;
  at: Micros;
  action: AuditAction;
  account_id: string;
  key_id: string;
  request_id: string;
  /** Method and pattern of the path. */
  route: string;
  /** Empty, as the username is, for a change of the account: its keys, its users. */
  directory_id: string;
  username: string;
  /** JSON: for each changed field its name, with what it was and became where that may be shown. */
  changes: string;
}

/**
 * Files that the API puts into a directory, as they will be there: written before, so that none is taken for an upload.
 * A row goes when its file is recorded; one whose file never came matches no other, and goes after a while.
 */
export interface PlacementsTable {
  directory_id: string;
  inode: number;
  mtime: Micros;
  size_bytes: number;
  inserted_at: Micros;
  /** `link`: somebody uploads it with a signed link. Null for a file of the API's, which is no upload. */
  via: Generated<'link' | null>;
  /** The client's, for an upload by link. */
  address: Generated<string | null>;
  /** 1: an upload by link that has arrived. Its row stays for a while, so that an older line of the log is not taken for it. */
  recorded: Generated<0 | 1>;
}

/** Links that work once, and have been used. A row goes after its link has expired. */
export interface LinkUsesTable {
  /** Of the link's signature. */
  digest: string;
  directory_id: string;
  expires_at: Micros;
  /** The file of an upload. */
  inode: number | null;
  /** 1: a download that has begun. */
  pending: 0 | 1;
}

/**
 * Files that the checker has rejected, in a folder of berth's own. A row goes with its file, or when that is an upload
 * after all.
 */
export interface QuarantineTable {
  /** The upload's, and the name of the file there. */
  id: string;
  directory_id: string;
  /** The machine that has the file. */
  node: string;
  /** Where it was, as `files.path`. */
  path: Buffer;
  size_bytes: number;
  inode: number;
  mtime: Micros;
  /** What the checker said. */
  reason: string;
  rejected_at: Micros;
  /** An operator has released it: it goes back to its path and is announced. */
  released_at: Micros | null;
}

/** Answers kept for an Idempotency-Key, for 24 h. */
export interface KeptAnswersTable {
  /** Derived from the API key and the Idempotency-Key, as is what encrypts the answer. */
  id: string;
  account_id: string;
  /** A keyed hash of the request. */
  request: string;
  /** Encrypted (`history/kept-answers.ts`). */
  answer: Buffer;
  inserted_at: Micros;
}

/** One row. */
export interface ClockTable {
  /** The wall time that was last seen; 0 when none was. */
  seen_at: Micros;
  /** How far it was ahead of the time that had passed (`clock-lead.ts`). */
  lead: Micros;
}

/** How much is kept for each account's Idempotency-Keys. */
export interface KeptAnswerTotalsTable {
  account_id: string;
  bytes: number;
}

type WithDefault = keyof AtHome | 'uses_account_webhook' | 'events' | 'link_secret';

export interface Tables extends UserTables, NodeTables {
  accounts: Omit<AccountsTable, 'events'> & { events: Generated<string | null> };
  api_keys: ApiKeysTable;
  principals: PrincipalsTable;
  /** With what lists of them are searched in, and when their latest upload was complete (0: never). */
  directories: Omit<DirectoriesTable, WithDefault> & {
    [column in WithDefault]: Generated<DirectoriesTable[column]>;
  } & { search: GeneratedAlways<string>; last_upload_at: Generated<Micros> };
  public_keys: PublicKeysTable;
  files: FilesTable;
  deliveries: Omit<DeliveriesTable, 'event'> & { event: Generated<EventKind> };
  attempts: AttemptsTable;
  transfers: TransfersTable;
  events: EventsTable;
  event_sequences: EventSequencesTable;
  account_webhooks: AccountWebhooksTable;
  quarantine: QuarantineTable;
  audit: AuditTable;
  placements: PlacementsTable;
  link_uses: LinkUsesTable;
  kept_answers: KeptAnswersTable;
  kept_answer_totals: KeptAnswerTotalsTable;
  clock: ClockTable;
}
