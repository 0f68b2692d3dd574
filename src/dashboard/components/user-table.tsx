/** The users of an account, with when they signed in last. */
import type { FC } from 'hono/jsx';
import type { User } from '../../users/users.ts';
import { Table } from './table.tsx';
import { Text } from './text.tsx';
import { Badge, Time } from './values.tsx';

export const ROLES = { member: 'Member', admin: 'Admin' };

const COLUMNS = ['Email', 'Role', 'Last sign-in', 'Second factor', 'State'];

/** Each is linked to the page on which an admin changes it. */
export const UserTable: FC<{ users: readonly User[]; mayChange: boolean }> = ({ users, mayChange }) => (
  <Table caption="Users of your account" columns={COLUMNS}>
    {users.map((user) => (
      <tr>
        <td>
          {mayChange ? (
            <a href={`/dashboard/team/${user.id}`}>
              <Text of={user.email} />
            </a>
          ) : (
            <Text of={user.email} />
          )}
        </td>
        <td>{ROLES[user.role]}</td>
        <td>
          <Time at={user.signed_in_at} />
        </td>
        <td>{user.has_second_factor ? 'on' : 'off'}</td>
        <td>
          <Badge
            kind={user.disabled_at === null ? 'good' : 'bad'}
            text={user.disabled_at === null ? 'enabled' : 'disabled'}
          />
        </td>
      </tr>
    ))}
  </Table>
);
