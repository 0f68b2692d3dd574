/** Deliveries, each with what its last attempt came to. */
import type { FC } from 'hono/jsx';
import type { ListedDelivery } from '../queries/deliveries.ts';
import { DeliveryState, Outcome } from './exchange.tsx';
import { clipped, Text } from './text.tsx';
import { Time } from './values.tsx';

/** Of a file's name and of an error, about so many characters. */
const SHOWN = 100;

/** @param path of the Webhook page. */
export const DeliveryTable: FC<{ deliveries: readonly ListedDelivery[]; path: string }> = ({ deliveries, path }) => (
  <div class="scroll">
    <table>
      <thead>
        <tr>
          <th scope="col">File</th>
          <th scope="col">State</th>
          <th scope="col">Last answer</th>
          <th scope="col">Attempts</th>
          <th scope="col">Created</th>
        </tr>
      </thead>
      <tbody>
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
            <td class="number">{attempts.length}</td>
            <td>
              <Time at={inserted_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);
