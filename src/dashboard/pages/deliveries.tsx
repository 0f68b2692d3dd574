/** All deliveries of a directory's webhook, newest first, and sending again what failed. */
import type { Hono } from 'hono';
import * as v from 'valibot';
import { parseMicros } from '../../clock.ts';
import { liveDirectory } from '../../directories/target.ts';
import type { FieldErrors } from '../../errors.ts';
import { checked, INVALID } from '../../validation.ts';
import { DELIVERY_STATES, type ShownState } from '../../webhooks/delivery-list.ts';
import type { WebhookRules } from '../../webhooks/receiver-of.ts';
import { replayFailed } from '../../webhooks/replay.ts';
import { DeliveryTable } from '../components/delivery-table.tsx';
import { DirectoryLayout } from '../components/directory-tabs.tsx';
import { Empty } from '../components/empty.tsx';
import { Field, Form } from '../components/form.tsx';
import { Pager } from '../components/pager.tsx';
import { Section } from '../components/section.tsx';
import { capitalized, Tabs } from '../components/tabs.tsx';
import { type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { fieldErrors, type FormFields, formFields, noticeOf } from '../form.ts';
import { deliveriesPage, replaysToCome } from '../queries/deliveries.ts';

const PATH = '/dashboard/directories/:id/webhook/deliveries';
const PAGE = 25;

const DONE = {
  replayed: 'What failed since then, and was not sent again before, is sent again: the oldest first.',
};

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

export function deliveriesPages(app: Hono<DashboardEnv>, rules: WebhookRules): void {
  const { reads } = rules.database;

  async function page(c: PageContext<typeof PATH>, given: FormFields = {}, errors?: FieldErrors) {
    const directory = await liveDirectory(reads, targetOf(c, c.req.param('id')));
    const { state, after } = checked(Filter, c.req.query());
    const { deliveries, next } = await deliveriesPage(reads, directory.id, { state, after, limit: PAGE });
    const toCome = await replaysToCome(reads, directory.id);
    const path = `/dashboard/directories/${directory.id}/webhook`;
    const filter = state === undefined ? '' : `state=${state}`;
    if (errors) c.status(422);
    return c.render(
      <DirectoryLayout
        directory={directory}
        tab="Webhook"
        notice={errors ? undefined : noticeOf(c, DONE)}
        problem={errors?.['webhook_url'] && 'There is nowhere to send them: save a webhook URL first.'}
      >
        <h2>Deliveries</h2>
        <Tabs label="States" tabs={TABS} current={tabOf(state)} />
        {toCome !== undefined && <p class="notice">{toCome} wait to be sent again.</p>}
        {deliveries.length > 0 ? (
          <DeliveryTable deliveries={deliveries} path={path} />
        ) : (
          <NoDeliveries path={path} state={state} />
        )}
        <Pager
          of="deliveries"
          first={after === undefined ? undefined : `${path}/deliveries?${filter}`}
          next={next === undefined ? undefined : `${path}/deliveries?${filter}&after=${next}`}
        />
        <Section
          title="Replay what failed"
          about="Each becomes a new delivery with the same body. What was sent again before is left out."
        >
          <Form action={`${path}/deliveries`}>
            <Field
              label="Since (UTC)"
              name="since"
              type="datetime-local"
              value={given['since']}
              errors={errors}
              hint="Left empty, all that failed and is still kept."
            />
            <button>Replay all that failed</button>
          </Form>
        </Section>
      </DirectoryLayout>,
    );
  }

  app.get(PATH, (c) => page(c));

  app.post(PATH, async (c) => {
    const given = await formFields(c);
    const target = targetOf(c, c.req.param('id'));
    const errors = await fieldErrors(() => replayFailed(rules, target, checked(Since, given).since));
    return errors ? page(c, given, errors) : c.redirect(`${c.req.path}?done=replayed`, 303);
  });
}

const STATES = [undefined, ...DELIVERY_STATES];
const TABS = Object.fromEntries(STATES.map((state) => [tabOf(state), state ? `?state=${state}` : '?']));

function tabOf(state: ShownState | undefined): string {
  return capitalized(state ?? 'all');
}

const NoDeliveries = ({ path, state }: { path: string; state: ShownState | undefined }) =>
  state === undefined ? (
    <Empty title="No deliveries yet">
      <p>
        <a href={path}>Save a webhook URL</a> and upload a file: its delivery is listed here.
      </p>
    </Empty>
  ) : (
    <Empty title={`No ${state} deliveries`} />
  );
