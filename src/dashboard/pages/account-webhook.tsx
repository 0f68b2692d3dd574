/** The section of the Account page with the account's webhook, for directories without a URL of their own. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import {
  type AccountWebhook,
  type AccountWebhookOptions,
  setAccountWebhook,
} from '../../directories/account-webhook.ts';
import { Field, Form } from '../components/form.tsx';
import { Section } from '../components/section.tsx';
import { Facts } from '../components/values.tsx';
import { actorOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';

const PATH = '/dashboard/account';

export const WEBHOOK_SAVED = 'The webhook is saved.';

export function accountWebhookForm(
  app: Hono<DashboardEnv>,
  rules: AccountWebhookOptions,
  page: (c: PageContext) => Response | Promise<Response>,
): void {
  app.post(`${PATH}/webhook`, adminOnly, (c) =>
    submitted(c, page, async ({ url = '' }) => {
      await setAccountWebhook(rules, actorOf(c), { url: url.trim() === '' ? null : url.trim() });
      return `${PATH}?done=webhook`;
    }),
  );
}

export const DefaultWebhook: FC<{ webhook: AccountWebhook; mayChange: boolean }> = ({ webhook, mayChange }) => (
  <Section
    title="Webhook"
    about="Uploads to directories without a webhook URL of their own are announced here, signed with this secret."
  >
    {mayChange ? (
      <Form action={`${PATH}/webhook`}>
        <Field
          label="URL"
          name="url"
          type="url"
          value={webhook.url ?? ''}
          hint="Empty: only directories with a URL of their own send webhooks."
        />
        <button>Save</button>
      </Form>
    ) : (
      <Facts of={{ URL: webhook.url ?? 'none' }} />
    )}
    {webhook.secret !== null && (
      <p class="quiet">The secret is in the answer to GET /api/v1/webhook. POST /api/v1/webhook/secret replaces it.</p>
    )}
  </Section>
);
