/** Who gets in to a directory now, and whether its webhook gets through. */
import type { FC } from 'hono/jsx';
import type { Micros } from '../../clock.ts';
import type { DirectoriesTable } from '../../db/schema.ts';
import { hasExpired } from '../../directories/access.ts';
import { Badge } from './values.tsx';

interface DirectoryStateProps {
  readonly of: Pick<DirectoriesTable, 'suspended' | 'expires_at'>;
  readonly isFailing: boolean;
  readonly now: Micros;
}

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
