/** All deliveries of a directory's webhook, newest first, with a form that replays failed ones. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import * as v from 'valibot';
import { checked, INVALID } from '../../../foundation/base/validation.ts';
import { DELIVERY_STATES, type ShownState } from '../../../deliveries/webhooks/delivery-list.ts';
import type { WebhookRules } from '../../../deliveries/webhooks/receiver-of.ts';
import { replayFailed } from '../../../deliveries/webhooks/replay.ts';
import { DeliveryTable } from '../components/exchange.tsx';
import { Field, Form } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { capitalized, Empty, Links, Pager, Section } from '../components/section.tsx';
import { counted } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { submitted, timeIn } from '../form.ts';
import { type Live, renderedIn } from '../live.tsx';
import { countDeliveries } from '../queries/account-deliveries.ts';
import { deliveriesPage, type ListedDelivery, replaysToCome } from '../queries/deliveries.ts';

const PATH = '/dashboard/directories/:id/webhook/deliveries';
const PAGE = 25;

const DONE = {
  replayed: 'Replaying {count} failed deliveries, oldest first.',
};
const PROBLEMS = { webhook_url: 'There is nowhere to send them. Save a webhook URL first.' };

const Filter = v.object({
  state: v.optional(v.picklist(DELIVERY_STATES, INVALID)),
  after: v.optional(v.string()),
});

/** An empty field means: since the beginning. */
const Since = v.object({
  since: v.pipe(
    v.optional(v.string(), ''),
    v.transform((text) => (text === '' ? 0 : timeIn(text))),
    v.number('Enter a date and time such as 2026-11-20 14:30.'),
  ),
});

const STATES = [undefined, ...DELIVERY_STATES];
const TABS = Object.fromEntries(STATES.map((state) => [tabOf(state), state ? `?state=${state}` : '?']));

function tabOf(state: ShownState | undefined): string {
  return capitalized(state ?? 'all');
}

/** How often the page looks for changes. */
const POLL_MS = 4000;

export function deliveriesPages(app: Hono<DashboardEnv>, rules: WebhookRules, live: Live): void {
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const { id } = c.get('directory');
    const { state, after } = checked(Filter, c.req.query());
    const { deliveries, next } = await deliveriesPage(reads, id, { state, after, limit: PAGE });
    const toCome = await replaysToCome(reads, id);
    const { accountId } = c.get('user').principal;
    const failed = await countDeliveries(reads, { accountId, directoryId: id, state: 'failed' });
    const filter = `${c.req.path}?${state === undefined ? '' : `state=${state}`}`;
    return c.render(
      <DirectoryLayout tab="Webhook" page="Deliveries" done={DONE} problems={PROBLEMS}>
        <h2>Deliveries</h2>
        <Links class="views" label="States" links={TABS} current={tabOf(state)} />
        {toCome !== undefined && <p class="notice">{toCome} are waiting to be replayed.</p>}
        <div data-live={`${c.req.path}/events${new URL(c.req.url).search}`}>
          <DeliveryList deliveries={deliveries} path={`${pathOf(c)}/webhook`} state={state} />
        </div>
        <Pager of="deliveries" first={after && filter} next={next && `${filter}&after=${next}`} />
        <Section
          title="Replay failed deliveries"
          about="Each is sent again as a new delivery with the same body. Deliveries that were replayed before are left out."
        >
          <Form
            action={c.req.path}
            confirm={`Up to ${counted(failed.count)} failed deliveries are sent again, oldest first.`}
            about="failed deliveries"
          >
            <Field label="Failed since" name="since" type="datetime-local" hint="Leave empty to replay all." />
            <button>Replay {counted(failed.count)} failed deliveries</button>
          </Form>
        </Section>
      </DirectoryLayout>,
    );
  }

  app.get(PATH, page);

  app.post(PATH, (c) =>
    submitted(c, page, async (given) => {
      const { count } = await replayFailed(rules, targetOf(c), checked(Since, given).since);
      return `${c.req.path}?done=replayed.${count}`;
    }),
  );

  app.get(`${PATH}/events`, async (c) => {
    const { id } = c.get('directory');
    const { state, after } = checked(Filter, c.req.query());
    const path = `${pathOf(c)}/webhook`;
    return live(c, { directoryId: id, everyMs: POLL_MS }, async () => {
      const { deliveries } = await deliveriesPage(reads, id, { state, after, limit: PAGE });
      return renderedIn(c, <DeliveryList deliveries={deliveries} path={path} state={state} />);
    });
  });
}

interface DeliveryListProps {
  readonly deliveries: readonly ListedDelivery[];
  /** The path of the Webhook page. */
  readonly path: string;
  readonly state: ShownState | undefined;
}

const DeliveryList: FC<DeliveryListProps> = ({ deliveries, path, state }) => (
  <DeliveryTable deliveries={deliveries} path={path}>
    {state === undefined ? (
      <Empty title="No deliveries yet">
        <a href={path}>Save a webhook URL</a> and upload a file: its delivery appears here.
      </Empty>
    ) : (
      <Empty title={`No ${state} deliveries`} />
    )}
  </DeliveryTable>
);
