/** The forms of a webhook's secret: showing it, and replacing it in two steps. */
import type { Hono } from 'hono';
import type { ChangeDependencies } from '../../directories/change.ts';
import { noteSecretShown, renewWebhookSecret } from '../../directories/webhook-secret.ts';
import { type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { fieldErrors, formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { showOnce } from '../shown-once.ts';
import type { ShowWebhook } from './webhook.tsx';

const PATH = '/dashboard/directories/:id/webhook/secret';

export function secretForms(app: Hono<DashboardEnv>, rules: ChangeDependencies, show: ShowWebhook): void {
  app.post(`${PATH}/show`, async (c) => {
    await noteSecretShown(rules, targetOf(c, c.req.param('id')));
    return shown(c);
  });

  app.post(PATH, adminOnly, async (c) => {
    const { secret = '' } = await formFields(c);
    const target = targetOf(c, c.req.param('id'));
    const errors = await fieldErrors(() => renewWebhookSecret(rules, target, secret === '' ? {} : { secret }));
    return errors ? show(c, { secret }, errors) : shown(c, '?done=renewed');
  });

  app.post(`${PATH}/activate`, adminOnly, async (c) => {
    const target = targetOf(c, c.req.param('id'));
    const errors = await fieldErrors(() => renewWebhookSecret(rules, target, { activate: true }));
    return errors ? show(c, {}, errors) : c.redirect(`${pageOf(c)}?done=activated`, 303);
  });
}

/**
 * Has the page show the secrets once. Asked for by a POST, they are in no address, in no history and, as any page, in no
 * cache; the page reads them itself.
 */
function shown(c: PageContext<typeof PATH>, query = '') {
  const page = pageOf(c);
  showOnce(c, { kind: 'webhook-secret', value: '', page });
  return c.redirect(page + query, 303);
}

function pageOf(c: PageContext<typeof PATH>): string {
  return `/dashboard/directories/${c.req.param('id')}/webhook`;
}
