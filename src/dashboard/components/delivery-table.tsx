/** Deliveries, each with what its last attempt came to. */
import type { FC } from 'hono/jsx';
import type { ListedDelivery } from '../queries/deliveries.ts';
import { DeliveryState, Outcome } from './exchange.tsx';
import { Table } from './table.tsx';
import { clipped, Text } from './text.tsx';
import { Time } from './values.tsx';

/** About so many characters of a file's name and of an error. */
const SHOWN = 100;

/** @param path of the Webhook page. */
export const DeliveryTable: FC<{ deliveries: readonly ListedDelivery[]; path: string }> = ({ deliveries, path }) => (
  <Table caption="Newest first" columns={['File', 'State', 'Last answer', 'Attempts', 'Created']}>
    {deliveries.map(({ id, filename, state, attempts, inserted_at }) => (
      <tr>
        <td>
          <a href={`${path}/deliveries/${id}`}>
            <Text of={clipped(filename, SHOWN)} />
          </a>
        </td>
        <td>
          <DeliveryState of={state} />
        </td>
        <td>
          <Outcome of={attempts.at(-1) ?? { status: null, error: null }} most={SHOWN} />
        </td>
        <td>{attempts.length}</td>
        <td>
          <Time at={inserted_at} />
        </td>
      </tr>
    ))}
  </Table>
);
