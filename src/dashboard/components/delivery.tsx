/** One delivery: what became of it, its attempts, and what they sent. */
import type { FC } from 'hono/jsx';
import { sign, signatureHeader } from '../../webhooks/signature.ts';
import type { WholeDelivery } from '../queries/deliveries.ts';
import { DeliveryState, Duration, Excerpt, Outcome, SentBody } from './exchange.tsx';
import { ActionButton } from './form.tsx';
import { Section } from './section.tsx';
import { clipped, Text } from './text.tsx';
import { Facts, Time } from './values.tsx';

interface DeliveryProps {
  readonly delivery: WholeDelivery;
  /** The Webhook page's. */
  readonly path: string;
}

export const DeliverySummary: FC<DeliveryProps> = ({ delivery, path }) => {
  const { id, state, filename, url, inserted_at, next_attempt_at, replayed_as, upload_id } = delivery;
  return (
    <Section title="Delivery">
      <Facts
        of={{
          State: <DeliveryState of={state} />,
          File: <Text of={clipped(filename, 300)} />,
          'Sent to': <Text of={url} />,
          Created: <Time at={inserted_at} />,
          'Next attempt': next_attempt_at === null ? undefined : <Time at={next_attempt_at} />,
          'Sent again':
            replayed_as === null ? undefined : <a href={`${path}/deliveries/${replayed_as}`}>as a new delivery</a>,
        }}
      />
      <div class="actions">
        {state !== 'pending' && <ActionButton action={`${path}/deliveries/${id}/replay`} label="Replay" />}
        {upload_id !== null && (
          <ActionButton action={`${path}/deliveries/${id}/announce`} label="Announce the file again" />
        )}
        <a href={`${path}/deliveries`}>All deliveries</a>
      </div>
      <p class="hint">
        A replay sends the same body as a new delivery. An announcement tells of the file as it is now.
      </p>
    </Section>
  );
};

export const Attempts: FC<{ of: WholeDelivery['attempts'] }> = ({ of }) => (
  <Section title="Attempts">
    {of.length === 0 && <p>None yet.</p>}
    {of.map((attempt) => (
      <>
        <h3>
          {attempt.number}. <Time at={attempt.started_at} />
        </h3>
        <p>
          <Outcome of={attempt} most={500} /> <Duration of={attempt.latency_us} />
        </p>
        {attempt.status !== null && <Excerpt of={attempt.response} />}
      </>
    ))}
  </Section>
);

/** Without the headers that each attempt has its own of: they are not kept. */
export const SentRequest: FC<DeliveryProps & { secret: string }> = ({ delivery: { id, body }, secret, path }) => (
  <Section title="Request" about="The same bytes at every attempt.">
    <SentBody of={body} /> <a href={`${path}/deliveries/${id}/body`}>Download</a>
    <h3>Headers</h3>
    <pre class="wire">{`content-type: application/json\nwebhook-id: ${id}`}</pre>
    <p>
      <code>webhook-timestamp</code> and the signatures are made at each attempt, with the secret of that moment, and
      are not kept. With today's secret, the body is signed
    </p>
    <pre class="wire">x-service-signature: {signatureHeader(sign(body, secret))}</pre>
  </Section>
);
