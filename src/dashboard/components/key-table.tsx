/** API keys, the revoked ones greyed. */
import type { FC } from 'hono/jsx';
import type { ApiKey } from '../../accounts/api-keys.ts';
import { Empty } from './empty.tsx';
import { Table } from './table.tsx';
import { Text } from './text.tsx';
import { Badge, Time } from './values.tsx';

export const KeyTable: FC<{ keys: readonly ApiKey[]; mayRevoke: boolean }> = ({ keys, mayRevoke }) => {
  if (keys.length === 0)
    return (
      <Empty title="No keys yet">
        <p>A program needs one to call the API.</p>
      </Empty>
    );
  return (
    <Table caption="Newest first" columns={['Name', 'Role', 'Created', 'Last used', 'State']}>
      {keys.map(({ id, name, role, inserted_at, created_by, last_used_at, revoked_at }) => (
        <tr class={revoked_at === null ? undefined : 'quiet'}>
          <td>
            <Text of={name} />
          </td>
          <td>{role}</td>
          <td>
            <Time at={inserted_at} /> {created_by !== null && <Text of={`by ${created_by.replace(/^\w+:/, '')}`} />}
          </td>
          <td>
            <Time at={last_used_at} />
          </td>
          <td>{revoked_at === null ? <Live id={id} mayRevoke={mayRevoke} /> : <Revoked at={revoked_at} />}</td>
        </tr>
      ))}
    </Table>
  );
};

/** The question comes first, on a page of its own. */
const Live: FC<{ id: string; mayRevoke: boolean }> = ({ id, mayRevoke }) =>
  mayRevoke ? (
    <form class="action" action={`/dashboard/api-keys/${id}/revoke`}>
      <button class="danger">Revoke</button>
    </form>
  ) : (
    <Badge kind="good" text="live" />
  );

const Revoked: FC<{ at: number }> = ({ at }) => (
  <>
    <Badge kind="quiet" text="revoked" /> <Time at={at} />
  </>
);
