/** The users of an account, with when they signed in last. */
import type { FC } from 'hono/jsx';
import type { User } from '../../users/users.ts';
import { Row, Table } from './table.tsx';
import { Text } from './text.tsx';
import { Badge, Time } from './values.tsx';

export const ROLES = { member: 'Member', admin: 'Admin' };

const COLUMNS = ['Email', 'Role', 'Last sign-in', 'Second factor', 'State'];

/** `linked`: to the pages on which an admin changes them. */
export const UserTable: FC<{ users: readonly User[]; linked?: boolean }> = ({ users, linked }) => (
  <Table caption="Users of your account" columns={COLUMNS}>
    {users.map(({ id, email, role, signed_in_at, has_second_factor, disabled_at }) => (
      <Row
        of={[
          linked ? (
            <a href={`/dashboard/team/${id}`}>
              <Text of={email} />
            </a>
          ) : (
            <Text of={email} />
          ),
          ROLES[role],
          <Time at={signed_in_at} />,
          has_second_factor ? 'on' : 'off',
          disabled_at === null ? <Badge kind="good" text="enabled" /> : <Badge kind="bad" text="disabled" />,
        ]}
      />
    ))}
  </Table>
);
