/**
 * The history of an account, or of one of its directories: files, logins and changes, newest first and page by page. Each entry is a
 * sentence: who did what to which file. A page reads each history by index, and no further than a page; a search reads a bounded part
 * of them.
 */
import { setImmediate } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import type { Micros } from '../../foundation/base/clock.ts';
import { among } from '../../foundation/db/dialect.ts';
import { anyContains, type Owner, ownedBy } from '../../foundation/db/lists.ts';
import type { Tables, TransferEvent } from '../../foundation/db/schema.ts';
import { type Refusal, refusalIn } from '../../rules/history/refusals.ts';
import {
  auditSentence,
  fingerprintsIn,
  type KeyNames,
  loginSentence,
  type Sentence,
  transferSentence,
} from '../../rules/history/sentences.ts';
import { attemptsOf } from './logins.ts';
import type { LoginAttempt } from './sshd-log.ts';

/** The topics to which a page can be narrowed. */
export const TOPICS = ['files', 'logins', 'changes'] as const;
export type Topic = (typeof TOPICS)[number];

export interface ActivityEntry extends Sentence {
  readonly at: Micros;
  readonly kind: 'file' | 'login' | 'refused' | 'session' | 'change';
  readonly directoryId: string;
  readonly username: string;
  readonly event?: TransferEvent;
  readonly bytes?: number | null;
  /** The SFTP session that it belongs to. Its number is used again after the session has ended. */
  readonly session?: string;
  readonly began?: Micros | null;
  /** What is known about a request that sshd has refused. */
  readonly refusal?: Refusal;
  /** The request of a change, and what it changed, for the export. */
  readonly request?: { readonly route: string; readonly id: string; readonly changes: string };
}

/** Where a page begins: at that moment, without the first `skip` entries, which are on the pages before. */
export interface ActivityPlace {
  readonly at: Micros;
  readonly skip: number;
}

export interface ActivityPage {
  readonly entries: readonly ActivityEntry[];
  readonly next: ActivityPlace | undefined;
}

/** An attempt to log in to a directory. */
export interface KnownAttempt extends LoginAttempt {
  readonly directory_id: string;
  /** Null if the directory is gone. */
  readonly username: string | null;
}

export interface ActivityOptions extends Owner {
  /** Attempts to log in that may not be in rows yet. */
  readonly unwritten: readonly KnownAttempt[];
  readonly topic?: Topic | undefined;
  /** A part of a file's path, of a person's name, or of an address. */
  readonly search?: string | undefined;
  /** Entries from before that moment are left out. */
  readonly since?: Micros;
  readonly from: ActivityPlace;
  readonly limit: number;
}

/** How many rows of each history a search reads at first: about 1 ms, 8 ms with long paths; and for one page at most. */
const SEARCHED_FIRST = 1250;
const SEARCHED = 100_000;
/** A search that has taken no longer reads twice as many rows in its next step. */
const SHORT_MS = 3;

export async function activityPage(reads: Kysely<Tables>, options: ActivityOptions): Promise<ActivityPage> {
  let { from } = options;
  for (let rows = SEARCHED_FIRST, searched = rows; ; searched += rows) {
    const began = performance.now();
    const page = await pageFrom(reads, { ...options, from }, rows);
    if (page.entries.length > 0 || !page.next || searched >= SEARCHED) return page;
    from = page.next;
    if (performance.now() - began < SHORT_MS) rows *= 2;
    await setImmediate();
  }
}

interface Span extends Omit<ActivityOptions, 'from'> {
  readonly since: Micros;
  readonly until: Micros;
}

/** @param searched how many rows of each history are read at most, if the page is narrowed. */
async function pageFrom(reads: Kysely<Tables>, options: ActivityOptions, searched: number): Promise<ActivityPage> {
  const { from, limit, topic, search } = options;
  const end = from.skip + limit;
  // Every row of a history is shown unless the page is narrowed. Then it may have to skip many.
  const floor = topic === undefined && search === undefined ? undefined : await floorOf(reads, options, searched);
  const span = { ...options, since: Math.max(floor ?? 0, options.since ?? 0), until: from.at, limit: end + 1 };
  const readers = { transfers: transfersIn, audit: changesIn, logins: loginsIn };
  const found: ActivityEntry[] = [];
  for (const table of HISTORIES[topic ?? 'all']) found.push(...(await readers[table](reads, span)));
  // Entries of the same moment are always in the same order.
  found.sort((a, b) => b.at - a.at);
  const shown = found.slice(0, end);
  const last = shown.at(-1);
  const next =
    found.length > end && last
      ? { at: last.at, skip: shown.filter(({ at }) => at === last.at).length }
      : floor === undefined
        ? undefined
        : { at: floor - 1, skip: 0 };
  return { entries: shown.slice(from.skip), next };
}

/** The tables that a page reads, by its topic. */
const HISTORIES = {
  all: ['transfers', 'audit', 'logins'],
  files: ['transfers', 'audit'],
  logins: ['transfers', 'logins'],
  changes: ['audit'],
} as const;

/** How far down each history is searched at once: to the latest of their marks. Undefined if that is all of them. */
async function floorOf(reads: Kysely<Tables>, options: ActivityOptions, searched: number): Promise<Micros | undefined> {
  const marks: Micros[] = [];
  for (const table of HISTORIES[options.topic ?? 'all']) {
    const { rows } = await sql<{ at: Micros }>`
      select at from ${sql.table(table)} where ${ownedBy(options, table)} and at <= ${options.from.at}
      order by at desc limit 1 offset ${searched}`.execute(reads);
    marks.push(...rows.map(({ at }) => at));
  }
  return marks.length === 0 ? undefined : Math.max(...marks);
}

/** Changes of a file's own, which are shown among the files. */
const FILE_ACTIONS = ['put-file', 'remove-file', 'announce-partial', 'release-file'] as const;

/** Texts that an address may contain. */
const IN_ADDRESSES = /^[\da-f.:]+$/i;

const OF_SESSIONS = ['session-opened', 'session-closed'] as const;

async function transfersIn(reads: Kysely<Tables>, span: Span): Promise<ActivityEntry[]> {
  const { topic, search, since, until, limit } = span;
  let query = reads
    .selectFrom('transfers as t')
    .selectAll('t')
    .where(ownedBy(span, 't'))
    .where((eb) => eb.between('t.at', since, until))
    // The audit has the same moment, and who did it.
    .where(({ not, exists, selectFrom, and, eb }) =>
      not(
        and([
          eb('t.event', '=', 'removed'),
          eb('t.address', 'is', null),
          exists(
            selectFrom('audit as a')
              .select('a.id')
              .whereRef('a.directory_id', '=', 't.directory_id')
              .whereRef('a.at', '=', 't.at')
              .where('a.action', '=', 'remove-file'),
          ),
        ]),
      ),
    );
  if (topic !== undefined) query = query.where('t.event', topic === 'files' ? 'not in' : 'in', OF_SESSIONS);
  if (search !== undefined) {
    const columns = ['t.path', 't.from_path', ...(IN_ADDRESSES.test(search) ? ['t.address'] : [])];
    query = query.where(anyContains(reads, columns, search));
  }
  return (await query.orderBy('t.at', 'desc').orderBy('t.id', 'desc').limit(limit).execute()).map((row) => {
    const { at, event, directory_id, username, bytes, began_at, session_pid, reason } = row;
    const refusal = event === 'refused' ? refusalIn(reason) : undefined;
    return {
      at,
      event,
      kind: OF_SESSIONS.some((each) => each === event) ? 'session' : 'file',
      directoryId: directory_id,
      username,
      bytes,
      began: began_at,
      ...(refusal && { refusal }),
      ...(session_pid !== null && { session: `${directory_id} ${session_pid}` }),
      ...transferSentence(row),
    };
  });
}

async function loginsIn(reads: Kysely<Tables>, span: Span): Promise<ActivityEntry[]> {
  return (await attemptsOf(reads, span, span.unwritten, span)).map(loginEntry);
}

export function loginEntry({ at, directory_id, username, ...login }: KnownAttempt): ActivityEntry {
  return { at, kind: login.kind, directoryId: directory_id, username: username ?? '', ...loginSentence(login) };
}

async function changesIn(reads: Kysely<Tables>, span: Span): Promise<ActivityEntry[]> {
  const { accountId, topic, search, since, until, limit } = span;
  let query = reads
    .selectFrom('audit as u')
    .leftJoin('api_keys as k', 'k.id', 'u.key_id')
    .selectAll('u')
    .select('k.name as key_name')
    .where(ownedBy(span, 'u'))
    .where((eb) => eb.between('u.at', since, until));
  if (topic === 'files') query = query.where('u.action', 'in', FILE_ACTIONS);
  if (topic === 'changes') query = query.where('u.action', 'not in', FILE_ACTIONS);
  if (search !== undefined)
    query = query.where(anyContains(reads, ['u.key_id', 'k.name', 'u.username', 'u.changes'], search));
  const rows = await query.orderBy('u.at', 'desc').orderBy('u.id', 'desc').limit(limit).execute();
  const keys = await keyNames(reads, accountId, rows.flatMap(fingerprintsIn));
  return rows.map((row) => ({
    at: row.at,
    kind: 'change',
    directoryId: row.directory_id,
    username: row.username,
    request: { route: row.route, id: row.request_id, changes: row.changes },
    ...auditSentence(row, keys),
  }));
}

/** The names of public keys in the account's directories: their comments, by fingerprint. */
async function keyNames(reads: Kysely<Tables>, accountId: string, fingerprints: readonly string[]): Promise<KeyNames> {
  if (fingerprints.length === 0) return new Map();
  const rows = await reads
    .selectFrom('public_keys as k')
    .innerJoin('directories as d', 'd.id', 'k.directory_id')
    .select(['k.fingerprint', 'k.comment'])
    .where('k.fingerprint', 'in', [...new Set(fingerprints)])
    .where('d.account_id', '=', accountId)
    .execute();
  return new Map(rows.flatMap(({ fingerprint, comment }) => (comment ? [[fingerprint, comment] as const] : [])));
}

export interface LatestUpload {
  readonly directory_id: string;
  readonly at: Micros;
  readonly path: string | null;
}

/** The account's newest uploads, of those that are among the latest entries of its history. @param search a part of the path. @param only the ids of the directories to search. */
export async function latestUploads(
  reads: Kysely<Tables>,
  accountId: string,
  {
    among: most,
    limit,
    search,
    only,
  }: {
    readonly among: number;
    readonly limit: number;
    readonly search?: string;
    readonly only?: ReadonlySet<string> | undefined;
  },
): Promise<LatestUpload[]> {
  const latest = reads
    .selectFrom('transfers')
    .select(['id', 'directory_id', 'at', 'path', 'event'])
    .where('account_id', '=', accountId)
    .orderBy('at', 'desc')
    .limit(most);
  let query = reads
    .selectFrom(latest.as('latest'))
    .select(['directory_id', 'at', 'path'])
    .where('event', '=', 'uploaded')
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (search !== undefined) query = query.where(anyContains(reads, ['path'], search));
  if (only) query = query.where('directory_id', 'in', among(reads, [...only]));
  return query.execute();
}
