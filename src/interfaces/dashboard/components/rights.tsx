/** What a user or an API key may do, where one chooses it and where one sees it: the role, and the limits. */
import type { FC } from 'hono/jsx';
import type { Kysely } from 'kysely';
import { scopeOf } from '../../../rules/accounts/actor.ts';
import { among } from '../../../foundation/db/dialect.ts';
import type { Tables } from '../../../foundation/db/schema.ts';
import type { FormFields } from '../environment.ts';
import { Field, Select } from './form.tsx';

export const ROLES = { member: 'Member', admin: 'Admin' };

export const RoleField: FC<{ value?: string }> = ({ value }) => (
  <>
    <Select label="Role" name="role" options={ROLES} {...(value !== undefined && { value })} />
    <p class="hint">
      Member: directories, files, webhooks and links. May also delete them. Cannot change logins, keys or people. Admin:
      everything.
    </p>
  </>
);

const ACCESS = { changes: 'Read and change', reads: 'Read only' };

/** The fields of a form that has limits. */
export const LIMIT_FIELDS = ['access', 'directories'];

interface Limited {
  readonly read_only: 0 | 1;
  readonly directories: string | null;
}

/** Directories as a user or key is limited to: their usernames by id, without those that are gone. */
type Usernames = ReadonlyMap<string, string>;

interface LimitsProps {
  /** The subject of the hint, such as `The key`. */
  readonly whose: string;
  readonly of?: Limited | undefined;
  readonly usernames?: Usernames;
}

/** The stored values in the fields' format. A directory that is gone has its id, so that saving the form keeps the limit. */
export function storedLimits(of: Limited | undefined, usernames?: Usernames) {
  const ids = of && scopeOf(of).directories;
  return {
    access: of?.read_only === 1 ? 'reads' : 'changes',
    directories: [...(ids ?? [])].map((id) => usernames?.get(id) ?? id).join('\n'),
  };
}

export const LimitFields: FC<LimitsProps> = ({ whose, of, usernames }) => {
  const stored = storedLimits(of, usernames);
  return (
    <>
      <Select label="Access" name="access" options={ACCESS} value={stored.access} />
      <Field
        label="Directories"
        name="directories"
        value={stored.directories}
        hint={`${whose} is for these directories only, and sees nothing else of the account. Leave empty for all.`}
        placeholder="SFTP usernames, one per line"
        rows={3}
        picks="/dashboard/find"
      />
    </>
  );
};

/** Limits that the form does not have stay as they are. */
export function limitsIn({ access, directories }: FormFields) {
  const named = directories?.split(/[\n\r,]+/).flatMap((line) => line.trim() || []);
  return {
    ...(access !== undefined && { read_only: access === 'reads' }),
    ...(named && { directories: named.length === 0 ? null : named }),
  };
}

/** How many names of directories are shown. */
const SHOWN_NAMES = 3;

export function limitsInWords(of: Limited, usernames: Usernames): string {
  const { isReadOnly, directories } = scopeOf(of);
  const known = [...(directories ?? [])].flatMap((id) => usernames.get(id) ?? []);
  const more = known.length > SHOWN_NAMES ? [`${known.length - SHOWN_NAMES} more`] : [];
  const which =
    directories && (known.length === 0 ? ['deleted directories'] : [...known.slice(0, SHOWN_NAMES), ...more]);
  return [...(isReadOnly ? ['read only'] : []), ...(which ?? [])].join(', ') || 'No limits';
}

/** The usernames of the directories that any of these are limited to. */
export async function usernamesOf(
  reads: Kysely<Tables>,
  accountId: string,
  limited: readonly Limited[],
): Promise<Usernames> {
  const ids = new Set(limited.flatMap((each) => [...(scopeOf(each).directories ?? [])]));
  if (ids.size === 0) return new Map();
  const found = await reads
    .selectFrom('directories')
    .select(['id', 'sftp_username'])
    .where('account_id', '=', accountId)
    .where('id', 'in', among(reads, [...ids]))
    .where('deleted_at', 'is', null)
    .execute();
  return new Map(found.map(({ id, sftp_username }) => [id, sftp_username]));
}
