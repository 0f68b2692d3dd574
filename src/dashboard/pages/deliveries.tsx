/** All deliveries of a directory's webhook, newest first, and sending again what failed. */
import type { Hono } from 'hono';
import * as v from 'valibot';
import { parseMicros } from '../../clock.ts';
import { checked, INVALID } from '../../validation.ts';
import { DELIVERY_STATES, type ShownState } from '../../webhooks/delivery-list.ts';
import type { WebhookRules } from '../../webhooks/receiver-of.ts';
import { replayFailed } from '../../webhooks/replay.ts';
import { DeliveryTable } from '../components/exchange.tsx';
import { Field, Form } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { capitalized, Empty, Links, Pager, Section } from '../components/section.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { submitted } from '../form.ts';
import { deliveriesPage, replaysToCome } from '../queries/deliveries.ts';

const PATH = '/dashboard/directories/:id/webhook/deliveries';
const PAGE = 25;

const DONE = {
  replayed: 'What failed since then, and was not sent again before, is sent again: the oldest first.',
};
const PROBLEMS = { webhook_url: 'There is nowhere to send them: save a webhook URL first.' };

const Filter = v.object({
  state: v.optional(v.picklist(DELIVERY_STATES, INVALID)),
  after: v.optional(v.string()),
});

/** As a browser sends it, in UTC; nothing stands for all that is kept. */
const Since = v.object({
  since: v.pipe(
    v.optional(v.string(), ''),
    v.transform((text) => (text === '' ? 0 : parseMicros(`${text}${text.length === 16 ? ':00' : ''}Z`))),
    v.number('is not a time such as 2026-11-20T14:30'),
  ),
});

const STATES = [undefined, ...DELIVERY_STATES];
const TABS = Object.fromEntries(STATES.map((state) => [tabOf(state), state ? `?state=${state}` : '?']));

function tabOf(state: ShownState | undefined): string {
  return capitalized(state ?? 'all');
}

export function deliveriesPages(app: Hono<DashboardEnv>, rules: WebhookRules): void {
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const { id } = c.get('directory');
    const { state, after } = checked(Filter, c.req.query());
    const { deliveries, next } = await deliveriesPage(reads, id, { state, after, limit: PAGE });
    const toCome = await replaysToCome(reads, id);
    const filter = `${c.req.path}?${state === undefined ? '' : `state=${state}`}`;
    return c.render(
      <DirectoryLayout tab="Webhook" done={DONE} problems={PROBLEMS}>
        <h2>Deliveries</h2>
        <Links class="tabs" label="States" links={TABS} current={tabOf(state)} />
        {toCome !== undefined && <p class="notice">{toCome} wait to be sent again.</p>}
        <DeliveryTable deliveries={deliveries} path={`${pathOf(c)}/webhook`}>
          {state === undefined ? (
            <Empty title="No deliveries yet">
              <a href={`${pathOf(c)}/webhook`}>Save a webhook URL</a> and upload a file: its delivery is listed here.
            </Empty>
          ) : (
            <Empty title={`No ${state} deliveries`} />
          )}
        </DeliveryTable>
        <Pager of="deliveries" first={after && filter} next={next && `${filter}&after=${next}`} />
        <Section
          title="Replay what failed"
          about="Each becomes a new delivery with the same body. What was sent again before is left out."
        >
          <Form action={c.req.path}>
            <Field
              label="Since (UTC)"
              name="since"
              type="datetime-local"
              hint="Left empty, all that failed and is still kept."
            />
            <button>Replay all that failed</button>
          </Form>
        </Section>
      </DirectoryLayout>,
    );
  }

  app.get(PATH, page);

  app.post(PATH, (c) =>
    submitted(c, page, async (given) => {
      await replayFailed(rules, targetOf(c), checked(Since, given).since);
      return `${c.req.path}?done=replayed`;
    }),
  );
}
