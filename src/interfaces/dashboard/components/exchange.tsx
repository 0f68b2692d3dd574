/** Requests to receivers and their responses. A response is untrusted text. */
import { STATUS_CODES } from 'node:http';
import type { FC, PropsWithChildren } from 'hono/jsx';
import type { Micros } from '../../../foundation/base/clock.ts';
import type { AttemptsTable } from '../../../foundation/db/schema.ts';
import type { Trial } from '../../../deliveries/webhooks/try.ts';
import type { ListedDelivery } from '../../../deliveries/webhooks/delivery-list.ts';
import { ActionButton } from './form.tsx';
import { Section } from './section.tsx';
import { Table } from './table.tsx';
import { Bytes, clipped, Name, Text } from './text.tsx';
import { Badge, CopyButton, Facts, Time } from './values.tsx';

/** About how many characters of a sent body and of a response are shown. */
const BODY = 4096;
const EXCERPT = 1024;
/** About how many characters a list shows of a name or an error. */
export const LISTED = 100;

const KINDS = { delivered: 'quiet', failed: 'bad', pending: 'waiting' } as const;

export const DeliveryState: FC<{ of: Pick<ListedDelivery, 'state' | 'event' | 'replayed_as'> }> = ({
  of: { state, event, replayed_as },
}) => (
  <>
    <Badge kind={KINDS[state]} text={state} />
    {event === 'test' && <Badge kind="quiet" text="test" />}
    {replayed_as !== null && <Badge kind="quiet" text="sent again" />}
  </>
);

/** Why a delivery failed: `500 Internal Server Error`, or what went wrong before there was a response. */
export const Cause: FC<{ of: Pick<AttemptsTable, 'status' | 'error'> | undefined; url: string }> = ({ of, url }) => {
  if (!of) return <>Not delivered</>;
  if (of.status === null) return <Outcome of={of} url={url} most={LISTED} />;
  return <>{[of.status, STATUS_CODES[of.status]].join(' ').trim()}</>;
};

interface OutcomeProps {
  readonly of: Pick<AttemptsTable, 'status' | 'error'>;
  /** The URL of the delivery. */
  readonly url: string;
  readonly most: number;
}

/** The status of the receiver's response, or why there was none. */
export const Outcome: FC<OutcomeProps> = ({ of, url, most }) => {
  if (of.status !== null) return <Badge kind={of.status < 300 ? 'quiet' : 'bad'} text={String(of.status)} />;
  return of.error === null ? (
    <span class="quiet">no response yet</span>
  ) : (
    <Text of={reasonInWords(of.error, url)} most={most} />
  );
};

/** Explains Node's connection errors. `HOST` is the receiver's name in the URL, never the address behind it. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/^connect ECONNREFUSED\b.*$/, 'connection refused by HOST'],
  [/^connect ETIMEDOUT\b.*$/, 'HOST did not respond in time'],
  [/^connect E(?:HOST|NET)UNREACH\b.*$/, 'HOST cannot be reached'],
  [/^getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (\S+)$/, 'the host $1 was not found'],
  [/^timeout$/, 'no answer within 5 s'],
  // As berth wrote it before.
  [/^(?:read ECONNRESET|socket hang up|Client network socket disconnected.*)$/, 'the receiver closed the connection'],
];

function reasonInWords(error: string, url: string): string {
  const [pattern, words = ''] = REASONS.find(([each]) => each.test(error)) ?? [];
  return pattern ? error.replace(pattern, words).replace('HOST', () => receiverIn(url)) : error;
}

/** The URL's host and port, without credentials. The scheme's port is added if the URL has none. */
function receiverIn(url: string): string {
  const parsed = URL.parse(url);
  if (!parsed) return 'the receiver';
  const { hostname, port, protocol } = parsed;
  const implied = protocol === 'https:' ? '443' : '80';
  return `${hostname}:${port === '' ? implied : port}`;
}

/** 1.5 ms, 412 ms, 2.1 s. */
export const Duration: FC<{ of: Micros | null }> = ({ of }) => {
  if (of === null) return <></>;
  const ms = of / 1000;
  return <>{ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`}</>;
};

/** The beginning of a response's body. */
export const Excerpt: FC<{ of: Uint8Array | null }> = ({ of }) =>
  of === null || of.length === 0 ? <p class="quiet">No body.</p> : <Bytes of={of} most={EXCERPT} />;

/** A body that berth sends. It is UTF-8, so it can be copied as text. A long file name can make it long. */
export const SentBody: FC<{ of: Buffer }> = ({ of }) => {
  const isWhole = clipped(of.toString(), BODY) === of.toString();
  return (
    <>
      <Bytes of={of} most={BODY} />
      {isWhole ? <CopyButton text={of.toString()} label="the body" /> : `The beginning of ${of.length} bytes.`}
    </>
  );
};

const ATTEMPTS = { name: 'Attempts', kind: 'extra' } as const;

interface DeliveryListProps {
  readonly of: readonly ListedDelivery[];
  /** Whether all are of the page's directory. */
  readonly isOne?: boolean;
}

/** Lists deliveries with the outcome of the last attempt. Without deliveries, shows its children. */
export const DeliveryList: FC<PropsWithChildren<DeliveryListProps>> = ({ of, isOne = false, children }) => (
  <Table
    caption="Newest first"
    isCompact
    columns={[
      'File',
      ...(isOne ? [] : ['Directory']),
      { name: 'State', kind: 'end' },
      'Last response',
      ATTEMPTS,
      'Created',
    ]}
    rows={of.map(({ directory_id, directory, ...delivery }) => {
      const path = `/dashboard/directories/${directory_id}`;
      return [
        <Name of={delivery.filename} most={LISTED} href={`${path}/webhook/deliveries/${delivery.id}`} />,
        ...(isOne ? [] : [<Name of={directory} href={path} />]),
        <DeliveryState of={delivery} />,
        <Outcome of={delivery.attempts.at(-1) ?? { status: null, error: null }} url={delivery.url} most={LISTED} />,
        delivery.attempts.length,
        <Time at={delivery.inserted_at} />,
      ];
    })}
  >
    {children}
  </Table>
);

/** The result first: what was sent is known. */
export const TrialResult: FC<{ trial: Trial }> = ({ trial: { request, answer } }) => (
  <div role="status">
    <Section title={answer.ok ? '✓ Accepted' : answer.isForbidden ? '✗ Nothing was sent' : '✗ Failed'}>
      <Facts
        of={{
          [answer.status === null ? 'Error' : 'Status']: <Outcome of={answer} url={request.url} most={500} />,
          Time: <Duration of={answer.latency} />,
        }}
      />
      {answer.status !== null && <Excerpt of={answer.response} />}
      <ActionButton label="Send another test" busy="Sending…" />
    </Section>
    <Section title="Request">
      <pre tabindex={0}>
        POST <Text of={request.url} most={2048} />
        {request.headers.map(([name, value]) => [`\n${name}: `, <Text of={value} />])}
      </pre>
      <SentBody of={request.body} />
    </Section>
  </div>
);
