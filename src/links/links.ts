/**
 * Makes a directory's links, and revokes all of them. Links are not stored: revoking replaces the secret that signs them.
 *
 * A directory gets its secret with its first link.
 */
import * as v from 'valibot';
import { verifyActor } from '../accounts/actor.ts';
import { requireDirectory } from '../accounts/scope.ts';
import { DAY, type Micros, SECOND } from '../base/clock.ts';
import type { DirectoriesTable } from '../db/schema.ts';
import { type ChangeOptions, revokeAccess } from '../directories/change.ts';
import type { Fields } from '../directories/fields.ts';
import { refusingWhenFull } from '../directories/storage-full.ts';
import { lockedDirectory, type Target } from '../directories/target.ts';
import { ValidationError } from '../base/errors.ts';
import { insertAudit } from '../history/audit.ts';
import type { StoredResponse } from '../history/stored-responses.ts';
import { displayName, type FilePath, pathOf } from '../uploads/file-path.ts';
import { BLANK, checked, filled, INVALID, orBlank, storable, timestamp, wholeNumber } from '../base/validation.ts';
import { type Claims, encoded, newNonce, newSecret, targetOf } from './claims.ts';

/** How far ahead a link may expire. */
const LONGEST_LIFE: Micros = 366 * DAY;

export const NewLink = v.pipe(
  v.object({
    for: v.pipe(v.picklist(['download', 'upload'], orBlank), v.description('What the link allows.')),
    path: v.pipe(
      v.string(orBlank),
      ...storable,
      filled,
      v.description('The path of the file, such as `in/report.pdf`.'),
    ),
    expires_at: v.pipe(timestamp, v.description('When the link stops working: within 366 days, in whole seconds.')),
    max_bytes: v.optional(
      v.pipe(
        wholeNumber(0, 1e14),
        v.description('How large an uploaded file may be. Required for upload links, and only allowed there.'),
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

export interface MadeLink {
  /** Path and query of the URL. */
  readonly target: string;
  readonly claims: Claims;
}

/** @throws {ValidationError} when no file can have that path. */
export type ReadPath = (target: string, prefix: string) => FilePath;

/**
 * @param answer stores the response to a request with an Idempotency-Key.
 * @throws {ValidationError}; {BerthError} `directory_not_found`, `storage_full`, and like `verifyActor`.
 */
export function makeLink(
  { database, clock }: Pick<ChangeOptions, 'database' | 'clock'>,
  target: Target,
  fields: Fields,
  readPath: ReadPath,
  answer?: StoredResponse<MadeLink>,
): Promise<MadeLink> {
  const { for: kind, path: text, expires_at, max_bytes: maxBytes, once = false } = checked(NewLink, fields);
  const now = clock.now();
  const expiresAt = expires_at - (expires_at % SECOND);
  const problems = {
    ...(expiresAt <= now && { expires_at: ['must be in the future'] }),
    ...(expiresAt > now + LONGEST_LIFE && { expires_at: ['must be within 366 days'] }),
    ...(kind === 'upload' && maxBytes === undefined && { max_bytes: [BLANK] }),
    ...(kind === 'download' && maxBytes !== undefined && { max_bytes: ['is for upload links only'] }),
  };
  if (Object.keys(problems).length > 0) throw new ValidationError(problems);
  const path = readPath(`/${encoded(pathOf(Buffer.from(text)))}`, '/');
  const claims: Claims = { kind, directoryId: target.id, path, expiresAt, once, maxBytes, nonce: newNonce() };
  return refusingWhenFull(() =>
    database.db.transaction().execute(async (tx) => {
      requireDirectory(await verifyActor(tx, target.actor), target.id);
      const directory = await lockedDirectory(tx, target);
      const secret = directory.link_secret ?? newSecret();
      if (directory.link_secret === null)
        await tx.updateTable('directories').set({ link_secret: secret }).where('id', '=', directory.id).execute();
      const name = displayName(path);
      const file = kind === 'upload' ? { from: null, to: name } : { from: name, to: null };
      const details = { file, once: { from: once, to: once } };
      if (target.actor) await insertAudit(tx, target.actor, { action: 'create-link', at: now, directory, details });
      const made = { target: targetOf(secret, claims), claims };
      await answer?.keep(tx, made);
      return made;
    }),
  );
}

/** Ends every link of the directory. @throws {BerthError} `directory_not_found`, `storage_full`. */
export function revokeLinks(options: ChangeOptions, target: Target): Promise<DirectoriesTable> {
  return revokeAccess(
    options,
    target,
    // Without a secret there are no links.
    (_tx, _now, { link_secret }) => (link_secret === null ? {} : { link_secret: newSecret() }),
    async (tx) => {
      await tx.deleteFrom('link_uses').where('directory_id', '=', target.id).where('pending', '=', 0).execute();
    },
  );
}
