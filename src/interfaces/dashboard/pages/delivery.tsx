/** One delivery: its exact body, its known headers and each attempt, with buttons that send it again, or a new webhook about its file. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { announce } from '../../../arrivals/uploads/announce.ts';
import { receiverIfAny } from '../../../deliveries/webhooks/receiver-of.ts';
import { replay } from '../../../deliveries/webhooks/replay.ts';
import { sign, signatureHeader } from '../../../deliveries/webhooks/signature.ts';
import { shellWord } from '../../../foundation/base/text.ts';
import { DeliveryState, Duration, Excerpt, Outcome, SentBody } from '../components/exchange.tsx';
import { ActionButton } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { number, Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { CopyButton, Facts, spanInWords, Time } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { submitted } from '../form.ts';
import { type WholeDelivery, wholeDelivery } from '../../../deliveries/webhooks/delivery-list.ts';

const PATH = '/dashboard/directories/:id/webhook/deliveries/:delivery_id';
/** A body of at least so many bytes is downloaded instead. */
const LONGEST_COMMAND = 10_000;

const DONE = {
  replayed: 'This is the new delivery, with the same body.',
  announced: 'This is the new delivery, about the file as it is now.',
};
const PROBLEMS = {
  webhook_url: 'There is nowhere to send it. Save a webhook URL first.',
  delivery_id: 'This delivery is still pending. berth sends it again automatically.',
};

export function deliveryPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const deliveryOf = (c: PageContext) =>
    wholeDelivery(context.database.reads, c.get('directory').id, c.req.param('delivery_id') ?? '');
  const listOf = (c: PageContext) => `${pathOf(c)}/webhook/deliveries`;

  /** The secret that signs now. If the directory has no URL, that is the account's. */
  async function secretOf(c: PageContext): Promise<string> {
    const directory = c.get('directory');
    return (await receiverIfAny(context.database.reads, directory))?.webhook_secret ?? directory.webhook_secret;
  }

  async function page(c: PageContext) {
    const delivery = await deliveryOf(c);
    return c.render(
      <DirectoryLayout tab="Webhook" page={`Delivery ${delivery.id.slice(0, 8)}`} done={DONE} problems={PROBLEMS}>
        <Summary of={delivery} list={listOf(c)} />
        <Attempts of={delivery} />
        <Request of={delivery} list={listOf(c)} secret={await secretOf(c)} />
      </DirectoryLayout>,
    );
  }

  app.get(PATH, page);

  app.get(`${PATH}/body`, async (c) => {
    const { id, body } = await deliveryOf(c);
    const disposition = `attachment; filename="${id}.json"`;
    return c.body(new Uint8Array(body), 200, {
      'content-type': 'application/json',
      'content-disposition': disposition,
    });
  });

  app.post(`${PATH}/replay`, (c) =>
    submitted(c, page, async () => {
      const { id } = await replay(context, targetOf(c), c.req.param('delivery_id'));
      return `${listOf(c)}/${id}?done=replayed`;
    }),
  );

  app.post(`${PATH}/announce`, (c) =>
    submitted(c, page, async () => {
      const { upload_id } = await deliveryOf(c);
      const { id } = await announce(context, targetOf(c), upload_id ?? '');
      return `${listOf(c)}/${id}?done=announced`;
    }),
  );
}

/** `list` is the path of the list of deliveries. */
interface DeliveryProps {
  readonly of: WholeDelivery;
  readonly list: string;
}

const Summary: FC<DeliveryProps> = ({ of: delivery, list }) => {
  const { id, state, next_attempt_at, replayed_as } = delivery;
  const isTest = delivery.event === 'test';
  return (
    <Section title="Delivery">
      <Facts
        of={{
          State: <DeliveryState of={delivery} />,
          File: <Text of={delivery.filename} most={300} />,
          'Sent to': <Text of={delivery.url} most={2048} />,
          Created: <Time at={delivery.inserted_at} isExact />,
          'Next attempt': next_attempt_at === null ? undefined : <Time at={next_attempt_at} />,
          'Sent again': replayed_as === null ? undefined : <a href={`${list}/${replayed_as}`}>as a new delivery</a>,
        }}
      />
      <div class="actions">
        {isTest ? (
          <ActionButton action={list.replace(/deliveries$/, 'test')} label="Send another test" />
        ) : (
          state !== 'pending' && <ActionButton action={`${list}/${id}/replay`} label="Send again" />
        )}
        {delivery.upload_id !== null && <ActionButton action={`${list}/${id}/announce`} label="Send a new webhook" />}
        <a href={list}>All deliveries</a>
      </div>
      <p class="hint">
        {isTest
          ? 'A test is sent once and isn’t retried. Its file doesn’t exist.'
          : 'Send again sends the same content. A new webhook describes the file as it is now.'}
      </p>
    </Section>
  );
};

const Attempts: FC<{ of: WholeDelivery }> = ({ of: { attempts, url } }) => {
  const first = attempts[0]?.started_at ?? 0;
  return (
    <Section title="Attempts">
      <Table
        caption="Attempts, oldest first"
        columns={[number('#'), 'Time', number('After'), 'Response', number('Duration'), 'Body']}
        rows={attempts.map((attempt) => [
          attempt.number,
          <Time at={attempt.started_at} isExact />,
          attempt.number === 1 ? '0 s' : `+${spanInWords(attempt.started_at - first)}`,
          <Outcome of={attempt} url={url} most={500} />,
          <Duration of={attempt.latency_us} />,
          attempt.status !== null && <ResponseBody of={attempt.response} />,
        ])}
      >
        <p class="quiet">No attempts yet.</p>
      </Table>
    </Section>
  );
};

/** The beginning of a response's body, folded. */
const ResponseBody: FC<{ of: Uint8Array | null }> = ({ of }) =>
  of === null || of.length === 0 ? (
    <span class="quiet">empty</span>
  ) : (
    <details>
      <summary>Show</summary>
      <Excerpt of={of} />
    </details>
  );

/** What a shell runs to send the same body with a signature that is right. */
function curl({ id, url, body }: WholeDelivery, signature: string): string {
  const headers = ['content-type: application/json', `webhook-id: ${id}`, `x-service-signature: ${signature}`];
  return ['curl', ...headers.flatMap((header) => ['-H', header]), '--data-raw', body.toString(), url]
    .map(shellWord)
    .join(' ');
}

/** The body, and the headers that are the same at each attempt. The others are not kept. */
const Request: FC<DeliveryProps & { secret: string }> = ({ of: delivery, list, secret }) => {
  const { id, body } = delivery;
  const signature = signatureHeader(sign(body, secret));
  return (
    <Section title="Request" about="Every attempt sends exactly this body.">
      <SentBody of={body} /> <a href={`${list}/${id}/body`}>Download</a>{' '}
      {body.length < LONGEST_COMMAND && <CopyButton text={curl(delivery, signature)} say="Copy as curl" />}
      <h3>Headers</h3>
      <pre>{`content-type: application/json\nwebhook-id: ${id}`}</pre>
      <p>
        <code>webhook-timestamp</code> and the signatures are computed for each attempt and aren’t stored. With the
        current secret, the body’s signature is:
      </p>
      <pre>x-service-signature: {signature}</pre>
    </Section>
  );
};
