/** One delivery: its exact body, what is known of its headers, each attempt; and sending it, or word of its file, again. */
import type { Hono } from 'hono';
import { liveDirectory } from '../../directories/target.ts';
import type { FieldErrors } from '../../errors.ts';
import { announce } from '../../uploads/announce.ts';
import type { Delivery } from '../../webhooks/delivery-list.ts';
import type { WebhookRules } from '../../webhooks/receiver-of.ts';
import { replay } from '../../webhooks/replay.ts';
import { DirectoryLayout } from '../components/directory-tabs.tsx';
import { Attempts, DeliverySummary, SentRequest } from '../components/delivery.tsx';
import { type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { fieldErrors, noticeOf } from '../form.ts';
import { wholeDelivery } from '../queries/deliveries.ts';

const WEBHOOK = '/dashboard/directories/:id/webhook';
const PATH = `${WEBHOOK}/deliveries/:delivery_id` as const;

const DONE = {
  replayed: 'This is the new delivery, with the same body.',
  announced: 'This is the new delivery, about the file as it is now.',
};

export function deliveryPage(app: Hono<DashboardEnv>, rules: WebhookRules): void {
  const { reads } = rules.database;

  async function page(c: PageContext<typeof PATH>, errors?: FieldErrors) {
    const directory = await liveDirectory(reads, targetOf(c, c.req.param('id')));
    const delivery = await wholeDelivery(reads, directory.id, c.req.param('delivery_id'));
    const notice = errors ? undefined : noticeOf(c, DONE);
    if (errors) c.status(422);
    return c.render(
      <DirectoryLayout directory={directory} tab="Webhook" notice={notice} problem={errors && inWords(errors)}>
        <DeliverySummary delivery={delivery} path={pathOf(c)} />
        <Attempts of={delivery.attempts} />
        <SentRequest delivery={delivery} secret={directory.webhook_secret} path={pathOf(c)} />
      </DirectoryLayout>,
    );
  }

  app.get(PATH, (c) => page(c));

  app.get(`${PATH}/body`, async (c) => {
    const { id } = await liveDirectory(reads, targetOf(c, c.req.param('id')));
    const delivery = await wholeDelivery(reads, id, c.req.param('delivery_id'));
    const disposition = `attachment; filename="${delivery.id}.json"`;
    return c.body(new Uint8Array(delivery.body), 200, {
      'content-type': 'application/json',
      'content-disposition': disposition,
    });
  });

  async function again(c: PageContext<typeof PATH>, done: string, make: () => Promise<Delivery>) {
    let id = '';
    const errors = await fieldErrors(async () => ({ id } = await make()));
    return errors ? page(c, errors) : c.redirect(`${pathOf(c)}/deliveries/${id}?done=${done}`, 303);
  }

  app.post(`${PATH}/replay`, (c) =>
    again(c, 'replayed', () => replay(rules, targetOf(c, c.req.param('id')), c.req.param('delivery_id'))),
  );

  app.post(`${PATH}/announce`, async (c) => {
    const target = targetOf(c, c.req.param('id'));
    const { id } = await liveDirectory(reads, target);
    const { upload_id } = await wholeDelivery(reads, id, c.req.param('delivery_id'));
    return again(c, 'announced', () => announce(rules, target, upload_id ?? ''));
  });
}

const pathOf = (c: PageContext<typeof WEBHOOK>): string => `/dashboard/directories/${c.req.param('id')}/webhook`;

function inWords(errors: FieldErrors): string {
  return 'webhook_url' in errors
    ? 'There is nowhere to send it: save a webhook URL first.'
    : 'It is still pending, and is sent again by itself.';
}
