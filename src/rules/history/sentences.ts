/**
 * Puts rows of the history into words: "dana@example.com added the key ci-server", "Customer uploaded report.csv". Activity, its export
 * and `berth explain` say the same.
 */
import type { Selectable } from 'kysely';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import type { AuditTable, TransferEvent, TransfersTable } from '../../foundation/db/schema.ts';
import { type AuditedColumn, BY_LINK } from './audit.ts';
import { refusalIn, refusalInWords } from './refusals.ts';

export interface Sentence {
  /** The subject. */
  readonly who: string;
  /** The client's address, if it is known. */
  readonly address: string | null;
  /** The verb with its object; only the verb if the object is a file. */
  readonly verb: string;
  readonly path?: string;
  /** How the sentence ends, after the file. */
  readonly end?: string;
}

/** The sentence as text. @param size stands after the file. */
export function sentenceOf({ who, address, verb, path, end = '' }: Sentence, size = ''): string {
  const parts = [who, ...(address === null ? [] : [`(${address})`]), verb, ...(path === undefined ? [] : [path])];
  return `${parts.join(' ')}${size}${end}`;
}

const CUSTOMER = 'Customer';

/** A newer node may write events and actions that this one does not know: they are shown by their names. */
const VERBS: Readonly<Partial<Record<string, string>>> = {
  'session-opened': 'opened a session',
  'session-closed': 'closed the session',
  received: 'sent',
  rejected: 'rejected',
  uploaded: 'uploaded',
  'upload-dropped': 'lost the connection while uploading',
  downloaded: 'downloaded',
  'download-dropped': 'downloaded a part of',
  renamed: 'renamed',
  removed: 'deleted',
  refused: 'was refused',
} satisfies Record<TransferEvent, string>;

type TransferRow = Pick<
  Selectable<TransfersTable>,
  'at' | 'event' | 'address' | 'session_pid' | 'path' | 'from_path' | 'began_at' | 'reason' | 'via'
>;

export function transferSentence(row: TransferRow): Sentence {
  const { path, from_path } = row;
  const object = from_path ?? path;
  const end = `${from_path === null ? '' : ` to ${path}`}${endOf(row)}`;
  return {
    ...authorOf(row),
    verb: verbOf(row),
    ...(object !== null && { path: object }),
    ...(end !== '' && { end }),
  };
}

function verbOf({ event, path, reason }: TransferRow): string {
  const refusal = event === 'refused' && refusalIn(reason);
  if (refusal)
    return refusal.wish !== 'request'
      ? `could not ${refusal.wish}`
      : path === null
        ? 'was refused a request'
        : 'was refused a request for';
  // The connection was there, but a part is missing.
  if (event === 'upload-dropped' && reason !== null) return 'uploaded a part of';
  return VERBS[event] ?? event;
}

function endOf({ at, event, began_at, reason }: TransferRow): string {
  if (event === 'session-closed') return began_at === null ? '' : ` after ${seconds(at - began_at)}`;
  if (event === 'received') return ', which was held back';
  // The reason of a removal is its author.
  if (reason === null || event === 'removed') return '';
  const refusal = event === 'refused' && refusalIn(reason);
  return `: ${refusal ? refusalInWords(refusal) : reason}`;
}

/** A span of time, to a tenth of a second. */
export function seconds(micros: Micros): string {
  return micros < SECOND ? `${Math.round(micros / 1000)} ms` : `${Math.round(micros / 1e5) / 10} s`;
}

function authorOf({ event, address, session_pid, via, reason }: TransferRow): Pick<Sentence, 'who' | 'address'> {
  if (event === 'rejected') return { who: 'The file check', address: null };
  if (via === 'link') return { who: 'A link', address };
  if (session_pid !== null || address !== null) return { who: CUSTOMER, address };
  // The reason says for how long files are kept.
  if (event === 'removed' && reason !== null) return { who: reason.replace(/^r/, 'R'), address };
  return { who: 'Someone on the server', address };
}

/** `text` says how somebody logged in, or why not, as in sshd's log. */
export function loginSentence(login: {
  readonly kind: 'login' | 'refused';
  readonly address: string | null;
  readonly text: string;
}): Sentence {
  const { kind, address, text: how } = login;
  return { who: CUSTOMER, address, verb: kind === 'refused' ? `failed to log in: ${how}` : `logged in ${how}` };
}

type Row = Pick<AuditTable, 'action' | 'changes' | 'key_id'> & { readonly key_name: string | null };

/** The changed fields by name, with their values before and after if those may be shown. */
type Changes = Record<string, { readonly from?: unknown; readonly to?: unknown }>;

/** The changes in a row. */
export function changesOf({ changes }: Pick<AuditTable, 'changes'>): Changes {
  return JSON.parse(changes) as Changes;
}

/** Names of keys by fingerprint. */
export type KeyNames = ReadonlyMap<string, string>;

export function auditSentence(row: Row, keys: KeyNames = new Map()): Sentence {
  const changes = changesOf(row);
  const { file, address } = changes;
  const ofFile = FILE_DEEDS[row.action];
  const deed = ofFile
    ? { ...ofFile, path: text(file?.to ?? file?.from) }
    : { verb: deedOf(row.action, changes, keys) ?? row.action };
  return { who: actorOf(row), address: typeof address?.to === 'string' ? address.to : null, ...deed };
}

/** The verb of each change of a file, and the end of its sentence. */
const FILE_DEEDS: Readonly<Partial<Record<AuditTable['action'], Pick<Sentence, 'verb' | 'end'>>>> = {
  'put-file': { verb: 'added' },
  'remove-file': { verb: 'deleted' },
  'announce-partial': { verb: 'marked', end: ' as complete' },
  'release-file': { verb: 'released' },
};

/** The fingerprints of keys in a row. */
export function fingerprintsIn(row: Pick<AuditTable, 'changes'>): string[] {
  const { public_key: all, public_key_fingerprint: newest } = changesOf(row);
  return [all?.from, all?.to, newest?.from, newest?.to].flat().filter((each) => typeof each === 'string');
}

function actorOf({ key_id, key_name }: Pick<Row, 'key_id' | 'key_name'>): string {
  if (key_id === BY_LINK) return 'A link';
  const [, kind, name = ''] = /^(operator|user):(.*)$/.exec(key_id) ?? [];
  if (kind === 'user') return name;
  return kind === undefined ? `API key "${key_name ?? key_id}"` : `Operator ${name}`;
}

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null));
const quoted = (value: unknown): string => `"${text(value)}"`;

/** Undefined for an action that only a newer version knows. */
function deedOf(action: AuditTable['action'], changes: Changes, keys: KeyNames): string | undefined {
  const { count, stopped, file, name, email, role } = changes;
  switch (action) {
    case 'create':
      return 'created the directory';
    case 'delete':
      return 'deleted the directory';
    case 'replay':
      if (stopped) return `stopped sending ${text(stopped.from)} failed deliveries again`;
      return count ? `sent ${text(count.to)} failed deliveries again` : 'sent a delivery again';
    case 'announce':
      return 'sent a new webhook for a file';
    case 'create-link':
      if (!file) return 'created a link';
      if (file.from === '') return 'created a one-time link to the password';
      return `created a link to ${file.from === null ? 'upload' : 'download'} ${quoted(file.to ?? file.from)}`;
    case 'revoke-link':
      if (file?.from === '') return 'revoked the link to the password';
      if (file) return `revoked a link to ${quoted(file.from)}`;
      return changes['links'] ? 'revoked all links' : 'revoked links';
    case 'open-link':
      return 'showed the password';
    case 'test':
      return 'sent a test webhook';
    case 'show-secret':
      return 'viewed the webhook secret';
    case 'create-key':
      return [`created the API key ${quoted(name?.to)} with the role ${text(role?.to)}`, ...limitsIn(changes)].join(
        ', ',
      );
    case 'revoke-key':
      return `revoked the API key ${quoted(name?.from)}`;
    case 'create-user':
      return [`invited ${text(email?.to)} as ${text(role?.to)}`, ...limitsIn(changes)].join(', ');
    case 'remove-user':
      return `removed ${text(email?.to ?? email?.from)}`;
    case 'update-user':
      return updatedUser(changes);
    case 'update-account':
      if (changes['webhook_url']) return 'changed the account’s webhook URL';
      if (changes['events']) return 'changed the account’s events';
      if (changes['webhook_secret']) return 'changed the account’s webhook secret';
      return changes['second_factor_required']?.to === true
        ? 'required two-factor sign-in for everyone'
        : 'made two-factor sign-in optional';
    case 'erase':
      return 'erased the history';
    case 'update':
      return updated(changes, keys);
    case 'undo-create':
      return 'removed the directory again, since it could not be completed';
    case 'put-file':
    case 'remove-file':
    case 'announce-partial':
    case 'release-file':
      return undefined; // in FILE_DEEDS
  }
}

function limitsIn({ read_only, directories }: Changes): string[] {
  return [
    ...(read_only?.to === true ? ['read-only'] : []),
    ...(Array.isArray(directories?.to) ? [`limited to ${directoriesIn(directories.to)}`] : []),
  ];
}

const directoriesIn = ({ length }: readonly unknown[]): string =>
  `${length} ${length === 1 ? 'directory' : 'directories'}`;

function updatedUser({ email, ...changes }: Changes): string {
  const who = text(email?.to);
  const parts = Object.entries(changes)
    .filter(([, { from, to }]) => from === undefined || from !== to)
    .map(([field, { to }]) => {
      if (field === 'role') return `changed the role of ${who} to ${text(to)}`;
      if (field === 'read_only') return to === true ? `made ${who} read-only` : `let ${who} change things`;
      if (field === 'directories')
        return Array.isArray(to) ? `limited ${who} to ${directoriesIn(to)}` : `gave ${who} all directories`;
      if (field === 'second_factor') return `turned ${to === true ? 'on' : 'off'} two-factor sign-in for ${who}`;
      if (field === 'disabled') return to === true ? `disabled ${who}` : `enabled ${who}`;
      if (field === 'password' && to === undefined) return `changed the password of ${who}`;
      return `changed the ${field.replaceAll('_', ' ')} of ${who}`;
    });
  return parts.length === 0 ? `changed ${who}` : parts.join('; ');
}

type Phrase = (change: Changes[string], all: Changes, keys: KeyNames) => string | undefined;

/** The phrase for each field's change; undefined when another field's phrase covers it. */
const PHRASES: Readonly<Record<AuditedColumn | 'events' | 'session', Phrase>> = {
  name: ({ from, to }) => `renamed the directory from ${quoted(from)} to ${quoted(to)}`,
  description: () => 'changed the description',
  slug: () => 'changed the slug',
  external_id: ({ to }) => (to === null ? 'removed the external id' : `set the external id to ${quoted(to)}`),
  metadata: () => 'changed the metadata',
  max_connections: ({ to }) => `set the connection limit to ${text(to)}`,
  retention_days: () => 'changed the retention days',
  quota_bytes: ({ to }) =>
    to === null ? 'removed the quota' : `set the quota to ${Number(to).toLocaleString('en')} bytes`,
  auth_mode: ({ to }) => `changed the login method to ${LOGINS[text(to)] ?? text(to)}`,
  suspended: ({ to }) => (to === true ? 'suspended the directory' : 'resumed the directory'),
  expires_at: ({ to }) =>
    to === null ? 'removed the expiry' : `set the expiry to ${text(to).slice(0, 16).replace('T', ' ')} UTC`,
  allowed_networks: ({ to }) =>
    Array.isArray(to) && to.length > 0 ? `allowed logins from ${to.join(', ')} only` : 'allowed logins from everywhere',
  password_hash: () => 'replaced the password',
  webhook_url: ({ to }) => (to === null ? 'removed the webhook URL' : `changed the webhook URL (${text(to)})`),
  uses_account_webhook: ({ to }) =>
    to === true
      ? 'turned on the account’s webhook for the directory'
      : 'turned off the account’s webhook for the directory',
  events: ({ to }) =>
    Array.isArray(to)
      ? `subscribed to the events ${['file.uploaded', ...to].map(text).join(', ')}`
      : 'went back to the account’s events',
  webhook_secret: () => 'activated the new webhook secret',
  next_webhook_secret: (_, all) => ('webhook_secret' in all ? undefined : 'created a new webhook secret'),
  session: ({ from }) => `ended the session from ${text(from).replace(/ since .*/, '')}`,
  public_key: ({ from, to }, all, keys) => keysInWords(from, to, all['public_key_fingerprint'], keys),
  public_key_fingerprint: ({ from, to }, all, keys) =>
    'public_key' in all
      ? undefined
      : keysInWords(from === null ? [] : [from], to === null ? [] : [to], undefined, keys),
};

const LOGINS: Readonly<Record<string, string>> = {
  password: 'password',
  public_key: 'public key',
  both: 'password or public key',
};

/** If there was and is at most one key, the row has its fingerprint in `single`, a field of its own. */
function keysInWords(gone: unknown, came: unknown, single: Changes[string] | undefined, keys: KeyNames): string {
  const [before, after] = [gone, came].map((some, index) => {
    if (Array.isArray(some)) return some.map(text);
    const only = index === 0 ? single?.from : single?.to;
    return typeof only === 'string' ? [only] : [];
  });
  const list = (some: readonly string[] = []): string => some.map((each) => keys.get(each) ?? each).join(', ');
  const parts = [
    ...(after && after.length > 0 ? [`added the key ${list(after)}`] : []),
    ...(before && before.length > 0 ? [`removed the key ${list(before)}`] : []),
  ];
  return parts.length > 0 ? parts.join(' and ') : 'changed the public keys';
}

function isPhrased(field: string): field is keyof typeof PHRASES {
  return Object.hasOwn(PHRASES, field);
}

function updated(changes: Changes, keys: KeyNames): string {
  const parts = Object.entries(changes).flatMap(([field, change]) => {
    const words = isPhrased(field) ? PHRASES[field] : undefined;
    const sentence = words ? words(change, changes, keys) : `changed the ${field.replaceAll('_', ' ')}`;
    return sentence ?? [];
  });
  return parts.length === 0 ? 'saved the directory unchanged' : parts.join('; ');
}
