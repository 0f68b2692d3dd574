/** A request to a receiver, and its response. The response is untrusted text. */
import type { FC, PropsWithChildren } from 'hono/jsx';
import type { Micros } from '../../base/clock.ts';
import type { AttemptsTable } from '../../db/schema.ts';
import type { Delivery } from '../../webhooks/delivery-list.ts';
import type { Trial } from '../../webhooks/try.ts';
import type { ListedDelivery } from '../queries/deliveries.ts';
import { Section } from './section.tsx';
import { number, Table } from './table.tsx';
import { Bytes, clipped, Name, Text } from './text.tsx';
import { Badge, CopyButton, Facts, Time } from './values.tsx';

/** How many characters of a body and a response are shown, roughly; EXCERPT in a list. */
const BODY = 4096;
const EXCERPT = 1024;
export const LISTED = 100;

const KINDS = { delivered: 'good', failed: 'bad', pending: 'waiting' } as const;

export const DeliveryState: FC<{ of: Delivery['state']; isReplayed?: boolean }> = ({ of, isReplayed }) => (
  <>
    <Badge kind={KINDS[of]} text={of} />
    {isReplayed && <Badge kind="quiet" text="replayed" />}
  </>
);

interface OutcomeProps {
  readonly of: Pick<AttemptsTable, 'status' | 'error'>;
  /** The delivery's. */
  readonly url: string;
  readonly most: number;
}

/** The receiver's status, or why none came. */
export const Outcome: FC<OutcomeProps> = ({ of, url, most }) => {
  if (of.status !== null) return <Badge kind={of.status < 300 ? 'good' : 'bad'} text={String(of.status)} />;
  return of.error === null ? (
    <span class="quiet">no answer yet</span>
  ) : (
    <Text of={clipped(reasonInWords(of.error, url), most)} />
  );
};

/** Explains Node's errors of connections; `HOST` is the receiver as the URL names it, never the address behind its name. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/^connect ECONNREFUSED\b.*$/, 'connection refused by HOST'],
  [/^connect ETIMEDOUT\b.*$/, 'HOST did not answer in time'],
  [/^connect E(?:HOST|NET)UNREACH\b.*$/, 'HOST cannot be reached'],
  [/^getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (\S+)$/, 'the host $1 was not found'],
  [/^(?:read ECONNRESET|socket hang up|Client network socket disconnected.*)$/, 'the receiver closed the connection'],
];

function reasonInWords(error: string, url: string): string {
  const [pattern, words = ''] = REASONS.find(([each]) => each.test(error)) ?? [];
  return pattern ? error.replace(pattern, words).replace('HOST', () => receiverIn(url)) : error;
}

/** Host and port: without credentials, and with the port that the scheme implies. */
function receiverIn(url: string): string {
  const parsed = URL.parse(url);
  if (!parsed) return 'the receiver';
  const { hostname, port, protocol } = parsed;
  const implied = protocol === 'https:' ? '443' : '80';
  return `${hostname}:${port === '' ? implied : port}`;
}

export const Duration: FC<{ of: Micros | null }> = ({ of }) => <>{of === null ? '' : `${(of / 1000).toFixed(1)} ms`}</>;

/** The beginning of an answer's body. */
export const Excerpt: FC<{ of: Uint8Array | null }> = ({ of }) =>
  of === null || of.length === 0 ? <p class="quiet">The answer has no body.</p> : <Bytes of={of} most={EXCERPT} />;

/** A body that berth sends: UTF-8, so that it can be copied as text. A file's name may make it long. */
export const SentBody: FC<{ of: Buffer }> = ({ of }) => {
  const isWhole = clipped(of.toString(), BODY) === of.toString();
  return (
    <>
      <Bytes of={of} most={BODY} />
      {isWhole ? <CopyButton text={of.toString()} label="the body" /> : `The beginning of ${of.length} bytes.`}
    </>
  );
};

interface DeliveryTableProps {
  readonly deliveries: readonly ListedDelivery[];
  /** The Webhook page. */
  readonly path: string;
}

/** A list of deliveries with the outcome of the last attempt; its children when there are none. */
export const DeliveryTable: FC<PropsWithChildren<DeliveryTableProps>> = ({ deliveries, path, children }) => (
  <Table
    caption="Newest first"
    columns={['File', 'State', 'Last answer', number('Attempts'), 'Created']}
    rows={deliveries.map(({ id, filename, url, state, attempts, inserted_at, replayed_as }) => [
      <Name of={clipped(filename, LISTED)} href={`${path}/deliveries/${id}`} />,
      <DeliveryState of={state} isReplayed={replayed_as !== null} />,
      <Outcome of={attempts.at(-1) ?? { status: null, error: null }} url={url} most={LISTED} />,
      attempts.length,
      <Time at={inserted_at} />,
    ])}
  >
    {children}
  </Table>
);

export const TrialResult: FC<{ trial: Trial }> = ({ trial: { request, answer } }) => (
  <>
    <Section title="Request">
      <pre tabindex={0}>
        POST <Text of={request.url} />
        {request.headers.map(([name, value]) => [`\n${name}: `, <Text of={value} />])}
      </pre>
      <SentBody of={request.body} />
    </Section>
    <Section title="Answer">
      <Facts
        of={{
          Result: answer.ok ? 'Accepted' : answer.isForbidden ? 'Nothing was sent' : 'Not accepted',
          [answer.status === null ? 'Error' : 'Status']: <Outcome of={answer} url={request.url} most={500} />,
          Time: <Duration of={answer.latency} />,
        }}
      />
      {answer.status !== null && <Excerpt of={answer.response} />}
    </Section>
  </>
);
