/** Components that lists and pages of directories share. */
import type { FC } from 'hono/jsx';
import type { Micros } from '../../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../../foundation/db/schema.ts';
import { hasExpired } from '../../../rules/directories/access.ts';
import type { FormFields } from '../environment.ts';
import { Field } from './form.tsx';
import { Badge } from './values.tsx';

export interface DirectoryProps {
  readonly directory: DirectoryRow;
  /** The path of the directory's pages; forms post to paths below it. */
  readonly path: string;
}

interface DirectoryStateProps {
  readonly of: Pick<DirectoryRow, 'suspended' | 'expires_at'>;
  readonly isFailing: boolean;
  readonly now: Micros;
}

/** Shows whether users can log in now, and whether the webhook is failing. */
export const DirectoryState: FC<DirectoryStateProps> = ({ of: directory, isFailing, now }) => {
  const isSuspended = directory.suspended === 1;
  const isExpired = hasExpired(directory, now);
  return (
    <>
      {isSuspended && <Badge kind="waiting" text="suspended" />}
      {isExpired && <Badge kind="waiting" text="expired" />}
      {!isSuspended && !isExpired && <Badge kind="good" text="live" />}
      {isFailing && <Badge kind="bad" text="webhook failing" />}
    </>
  );
};

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
