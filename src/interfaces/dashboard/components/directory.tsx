/** Components that lists and pages of directories share. */
import type { FC } from 'hono/jsx';
import { type Micros, hasExpired } from '../../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../../foundation/db/schema.ts';
import { lacksKey } from '../../../rules/directories/update.ts';
import type { FormFields } from '../environment.ts';
import { Field } from './form.tsx';
import { Empty } from './section.tsx';
import { clipped, Name } from './text.tsx';
import { Badge } from './values.tsx';

export interface DirectoryProps {
  readonly directory: DirectoryRow;
  /** The path of the directory's pages; forms post to paths below it. */
  readonly path: string;
}

/** The state of a directory that accepts public keys only, and has none. */
export const NO_KEY = 'nobody can log in';

interface DirectoryStateProps {
  readonly of: Pick<DirectoryRow, 'suspended' | 'expires_at' | 'auth_mode' | 'public_key'>;
  readonly isFailing: boolean;
  readonly now: Micros;
}

/** Shows what is wrong: that nobody can log in now, or that the webhook is failing. */
export const DirectoryState: FC<DirectoryStateProps> = ({ of: directory, isFailing, now }) => {
  const isSuspended = directory.suspended === 1;
  const isExpired = hasExpired(directory, now);
  const isOpen = !isSuspended && !isExpired;
  return (
    <>
      {isSuspended && <Badge kind="waiting" text="suspended" />}
      {isExpired && <Badge kind="waiting" text="expired" />}
      {isOpen && lacksKey(directory) && <Badge kind="waiting" text={NO_KEY} />}
      {isFailing && <Badge kind="bad" text="webhook failing" />}
    </>
  );
};

interface CandidatesProps {
  readonly of: readonly Pick<DirectoryRow, 'id' | 'name'>[];
  /** What was searched for. */
  readonly text: string;
  /** The address of the page for one of them. */
  readonly addressOf: (id: string) => string;
}

/** Says which directories a text may mean, if any. */
export const Candidates: FC<CandidatesProps> = ({ of, text, addressOf }) =>
  of.length === 0 ? (
    <Empty title={`No directory matches "${clipped(text, 100)}".`} />
  ) : (
    <>
      <p>Several directories match. Choose one:</p>
      <ul>
        {of.map(({ id, name }) => (
          <li>
            <Name of={name} href={addressOf(id)} />
          </li>
        ))}
      </ul>
    </>
  );

export const NameField: FC<{ value?: string; hint: string; isFirst?: boolean }> = (props) => (
  <Field label="Name" name="name" isRequired {...props} />
);

export const MoreFields: FC<{ stored: FormFields }> = ({ stored }) => {
  const of = (name: string) => ({ name, value: stored[name] });
  return (
    <>
      <Field label="Description" {...of('description')} rows={3} />
      <Field label="External ID" {...of('external_id')} hint="Your own reference. Webhooks include it." />
      <Field label="Max connections" {...of('max_connections')} type="number" hint="At the same time, 1 to 1,000." />
    </>
  );
};
