/**
 * Makes, lists and revokes a directory's links. Each has a row. Revoking a link removes its row, and a link without a row
 * does not work.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import type { ExpressionBuilder, Kysely, Selectable, Transaction } from 'kysely';
import { DAY, type Micros, SECOND } from '../../foundation/base/clock.ts';
import { BerthError, type FieldErrors, ValidationError, wrongField } from '../../foundation/base/errors.ts';
import { hashToken } from '../../foundation/base/hashes.ts';
import {
  checked,
  filled,
  INVALID,
  orBlank,
  storable,
  timestamp,
  wholeNumber,
} from '../../foundation/base/validation.ts';
import type { LinksTable, Tables } from '../../foundation/db/schema.ts';
import type { Fields } from '../../rules/directories/fields.ts';
import { refusingWhenFull, withDiskReserve } from '../../rules/directories/storage-full.ts';
import { lockedDirectory, notFound, type RuleContext, type Target } from '../../rules/directories/target.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { baseName, bytesOf, displayName, type FilePath, pathOf } from '../uploads/file-path.ts';
import * as v from 'valibot';

/** How many days ahead a link may expire. */
const LONGEST_DAYS = 366;

export const NewLink = v.pipe(
  v.object({
    for: v.pipe(v.picklist(['download', 'upload'], orBlank), v.description('What the link allows.')),
    path: v.pipe(
      v.string(orBlank),
      ...storable,
      filled,
      v.description(
        'The path of the file, such as `in/report.pdf`. An upload link may also name a folder, such as `in/`, which accepts files of any name; `/` is the top folder.',
      ),
    ),
    expires_at: v.pipe(
      timestamp,
      v.description(
        'When the link stops working: within 366 days, in whole seconds, and not after the API key that makes it expires.',
      ),
    ),
    max_bytes: v.optional(
      v.pipe(
        wholeNumber(0, 1e14),
        v.description('The largest size of an uploaded file. Required for upload links, and only allowed for them.'),
      ),
    ),
    once: v.optional(
      v.pipe(
        v.boolean(INVALID),
        v.description('Whether the link works only once. By default it works any number of times.'),
      ),
    ),
  }),
  v.title('CreateLink'),
);

/** A link as it may be shown later: without its token. */
export type Link = Omit<Selectable<LinksTable>, 'hash' | 'sent' | 'sending' | 'password'>;

export interface MadeLink {
  /** The path of its URL, with the token. */
  readonly target: string;
  readonly link: Link;
}

const SHOWN = [
  'links.id',
  'directory_id',
  'kind',
  'path',
  'is_folder',
  'max_bytes',
  'once',
  'links.expires_at',
  'links.inserted_at',
  'created_by',
  'used_at',
  'pending',
] as const;

/** @throws {ValidationError} when no file can have that path. */
export type ReadPath = (target: string, prefix: string) => FilePath;

/** A link's path as people read it: `in/` for a folder, `/` for the top one. Empty for a password. */
export function linkPath({ path, is_folder }: Pick<Link, 'path' | 'is_folder'>): string {
  return displayName(path) + (is_folder === 1 ? '/' : '');
}

/** @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`, and like `verifyActor`. */
export function makeLink(
  { database, clock }: RuleContext,
  target: Target<MadeLink>,
  fields: Fields,
  readPath: ReadPath,
): Promise<MadeLink> {
  const { for: kind, path: text, expires_at, max_bytes: maxBytes, once = false } = checked(NewLink, fields);
  const now = clock.now();
  const expiresAt = expires_at - (expires_at % SECOND);
  const isFolder = kind === 'upload' && text.endsWith('/');
  const problems: FieldErrors = {
    ...(expiresAt <= now && { expires_at: [['past']] }),
    ...(expiresAt > now + LONGEST_DAYS * DAY && { expires_at: [['too_late', LONGEST_DAYS]] }),
    ...(kind === 'upload' && maxBytes === undefined && { max_bytes: [['blank']] }),
    ...(kind === 'download' && maxBytes !== undefined && { max_bytes: [['uploads_only']] }),
  };
  if (Object.keys(problems).length > 0) throw new ValidationError(problems);
  const path = isFolder ? folderIn(text, readPath) : readPath(`/${encoded(pathOf(Buffer.from(text)))}`, '/');
  const token = newToken();
  const link: Link = {
    id: randomUUID(),
    directory_id: target.id,
    kind,
    path: bytesOf(path),
    is_folder: isFolder ? 1 : 0,
    max_bytes: maxBytes ?? null,
    once: once ? 1 : 0,
    expires_at: expiresAt,
    inserted_at: now,
    created_by: target.actor?.keyId ?? null,
    used_at: null,
    pending: 0,
  };
  return refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      const directory = await lockedDirectory(tx, target);
      if (!(await isWithinKeysLife(tx, target.actor, expiresAt))) throw wrongField('expires_at', 'later_than_key');
      await tx
        .insertInto('links')
        .values({ ...link, hash: hashToken(token) })
        .execute();
      const name = linkPath(link);
      const file = kind === 'upload' ? { from: null, to: name } : { from: name, to: null };
      const details = { file, once: { from: once, to: once } };
      await insertAudit(tx, target, { action: 'create-link', at: now, directory, details });
      const made = { target: linkTarget(token, isFolder ? '' : baseName(path)), link };
      await target.actor?.response?.keep(tx, made);
      return made;
    }),
  );
}

/** Whether the key behind the request, if it is a key, is in force until then. */
async function isWithinKeysLife(
  tx: Transaction<Tables>,
  actor: Target<never>['actor'],
  until: Micros,
): Promise<boolean> {
  const { credential } = actor ?? {};
  if (credential?.kind !== 'api-key') return true;
  const own = tx.selectFrom('api_keys').select('expires_at').where('id', '=', credential.id);
  const { expires_at: end } = await own.executeTakeFirstOrThrow();
  return end === null || until <= end;
}

function folderIn(text: string, readPath: ReadPath): FilePath {
  const folder = text.replace(/^\//, '').replace(/\/$/, '');
  return folder === '' ? '' : readPath(`/${encoded(pathOf(Buffer.from(folder)))}`, '/');
}

/** Whether the key that made a link, if a key did, was not revoked. */
export function isOfKeyInForce({ exists, not, selectFrom }: ExpressionBuilder<Tables, 'links'>) {
  const revoked = selectFrom('api_keys').select('id').where('revoked_at', 'is not', null);
  return not(exists(revoked.whereRef('api_keys.id', '=', 'links.created_by')));
}

export interface LinkPage {
  readonly now: Micros;
  readonly limit: number | undefined;
  readonly after?: { readonly inserted_at: Micros; readonly id: string } | undefined;
}

function working(reads: Kysely<Tables>, now: Micros) {
  return reads
    .selectFrom('links')
    .select(SHOWN)
    .where(isOfKeyInForce)
    .where('links.expires_at', '>', now)
    .where(({ eb, or }) => or([eb('used_at', 'is', null), eb('pending', '=', 1)]));
}

/** The links of a directory that still work, newest first. */
export function linksOf(reads: Kysely<Tables>, directoryId: string, { now, limit, after }: LinkPage): Promise<Link[]> {
  let links = working(reads, now)
    .where('directory_id', '=', directoryId)
    .orderBy('inserted_at', 'desc')
    .orderBy('id', 'desc');
  if (limit !== undefined) links = links.limit(limit);
  if (after)
    links = links.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('inserted_at', 'id'), '<', tuple(after.inserted_at, after.id)),
    );
  return links.execute();
}

/** The links that an actor has made in an account's directories and that still work, those that work longest first. */
export function linksMadeBy(
  reads: Kysely<Tables>,
  { accountId, keyId }: { readonly accountId: string; readonly keyId: string },
  { now, limit }: { readonly now: Micros; readonly limit: number },
): Promise<(Link & { readonly directory: string })[]> {
  return working(reads, now)
    .innerJoin('directories', 'directories.id', 'directory_id')
    .select('directories.name as directory')
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .where('created_by', '=', keyId)
    .orderBy('links.expires_at', 'desc')
    .limit(limit)
    .execute();
}

/** The link with that id, if the directory has it. */
export function linkById(reads: Kysely<Tables>, directoryId: string, id: string): Promise<Link | undefined> {
  return reads
    .selectFrom('links')
    .select(SHOWN)
    .where('directory_id', '=', directoryId)
    .where('id', '=', id)
    .executeTakeFirst();
}

/** Revokes one link of the directory. @throws {BerthError} `link_not_found`, and like `revokeLinks`. */
export async function revokeLink(context: RuleContext, target: Target, id: string): Promise<void> {
  const revoked = await revoke(context, target, id);
  if (revoked === 0) throw new BerthError('link_not_found', 'Link not found');
}

/** Revokes every link of the directory. @throws {BerthError} `directory_not_found`, `storage_full`, and like `verifyActor`. */
export async function revokeLinks(context: RuleContext, target: Target): Promise<void> {
  await revoke(context, target);
}

/** @returns how many links were revoked. */
function revoke(context: RuleContext, target: Target, id?: string): Promise<number> {
  const { database, clock } = context;
  const work = (): Promise<number> =>
    database.db.transaction().execute(async (tx) => {
      const directory = await lockedDirectory(tx, target);
      let links = tx.deleteFrom('links').where('directory_id', '=', directory.id);
      if (id !== undefined) links = links.where('id', '=', id);
      const gone = await links.returning(['path', 'is_folder']).execute();
      const [first] = gone;
      if (!first) return 0;
      const file = id === undefined ? {} : { file: { from: linkPath(first), to: null } };
      const details = { ...file, links: { from: gone.length, to: 0 } };
      await insertAudit(tx, target, { action: 'revoke-link', at: clock.now(), directory, details });
      return gone.length;
    });
  return refusingWhenFull(async () => {
    const done = await withDiskReserve(context, target, work, async () => undefined);
    return done ?? notFound();
  });
}

/**
 * 192 random bits, for the URL of a link: `/links/TOKEN/NAME` for a file, and `/links/TOKEN/` otherwise. The token alone gives
 * access; the database has only its hash. The name is the file's, without the folders above it, which its holder need not know.
 */
export function newToken(): string {
  return randomBytes(24).toString('base64url');
}

export const TOKEN = /^[\w-]{32}$/;

/** @param name empty unless the link is to a file. */
export function linkTarget(token: string, name: FilePath): string {
  return `/links/${token}/${encoded(name)}`;
}

/** Percent-encodes a path for a URL. Each of its characters is a byte. */
export function encoded(path: FilePath): string {
  return path.replaceAll(/[^\w.~/-]/g, percent);
}

function percent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}

// Sizes of files as people write them: 100 MB.

const UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** A limit in words, never more than it is. Sizes that are whole in binary units are shown in these: 104857600 is 100 MB. */
export function limitInWords(bytes: number): string {
  for (const base of [1024, 1000]) {
    const step = bytes < base ? 0 : Math.min(4, Math.floor(Math.log(bytes) / Math.log(base)));
    const count = bytes / base ** step;
    if (base === 1000 || (step > 1 && Number.isInteger(count))) {
      const shown = Math.floor(count * 10) / 10;
      return `${shown} ${step === 0 && bytes === 1 ? 'byte' : UNITS[step]}`;
    }
  }
  return `${bytes} bytes`;
}
