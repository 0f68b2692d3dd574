/** How a webhook is doing, in one line. */
import type { FC } from 'hono/jsx';
import type { DeliveryRate, WebhookHealth } from '../queries/webhook-health.ts';
import { Outcome } from './exchange.tsx';
import { Badge, counted, Time } from './values.tsx';

interface WebhookHealthLineProps {
  readonly of: WebhookHealth;
  /** Where the directory's deliveries are listed. */
  readonly deliveries: string;
  /** Whether webhooks go anywhere. */
  readonly hasReceiver: boolean;
}

export const WebhookHealthLine: FC<WebhookHealthLineProps> = ({ of: health, deliveries, hasReceiver }) => {
  const { failing, last, rate } = health;
  return (
    <p class="parts">
      <span>
        <Badge {...stateOf(health, hasReceiver)} />
        {failing && last && (
          <>
            {' '}
            started <Time at={failing.since} />
          </>
        )}
      </span>
      {last && (
        <span>
          {last.status === null ? (
            <>
              {last.isTest ? 'last test' : 'last attempt'} <Time at={last.started_at} />:{' '}
              <Outcome of={last} url={last.url} most={100} />
            </>
          ) : (
            <>
              {last.isTest ? 'last test' : 'last'} <Outcome of={last} url={last.url} most={100} />{' '}
              <Time at={last.started_at} />
            </>
          )}
        </span>
      )}
      {rate && (
        <span>
          {percent(rate)} delivered in {rate.days === 1 ? '24 hours' : `${rate.days} days`}
        </span>
      )}
      {failing && (
        <a href={`${deliveries}&state=failed`}>
          {counted(failing.failed)} failed {failing.failed === 1 ? 'delivery' : 'deliveries'}
        </a>
      )}
      {hasReceiver && !last && <span class="quiet">Send a test to check your receiver.</span>}
    </p>
  );
};

function stateOf(
  { failing, last }: WebhookHealth,
  hasReceiver: boolean,
): { kind: 'bad' | 'waiting' | 'quiet'; text: string } {
  if (!hasReceiver) return { kind: 'quiet', text: 'Off' };
  if (!last) return { kind: 'quiet', text: 'Not tried yet' };
  if (failing) return { kind: 'bad', text: 'Failing' };
  if (last.status !== null && last.status >= 200 && last.status < 300) return { kind: 'quiet', text: 'Working' };
  return last.isTest ? { kind: 'bad', text: 'Test failed' } : { kind: 'waiting', text: 'Retrying' };
}

/** Rounded down, so that only a whole is 100%. */
function percent({ share }: DeliveryRate): string {
  return `${Math.floor(share * 1000) / 10}%`;
}
