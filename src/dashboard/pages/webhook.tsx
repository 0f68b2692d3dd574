/** A directory's webhook: its URL, its secret, a test, its latest deliveries, and code that verifies it. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { ChangeOptions } from '../../directories/change.ts';
import { updateWebhook } from '../../directories/webhook.ts';
import type { Turn } from '../../web/turns.ts';
import { type MayReach, unreachable } from '../../web/warnings.ts';
import { receiverUrl } from '../../webhooks/receiver-of.ts';
import { type TrialRules, tryWebhook } from '../../webhooks/try.ts';
import { DeliveryTable, TrialResult } from '../components/exchange.tsx';
import { changedFields } from '../changed-fields.ts';
import { ActionButton, Field, Form, Was } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Name } from '../components/text.tsx';
import { Time } from '../components/values.tsx';
import { readSnippets, Verification } from '../components/verification.tsx';
import { type DashboardEnv, isAdmin, type PageContext, pathOf, targetOf } from '../environment.ts';
import { submitted } from '../form.ts';
import type { Live } from '../live.tsx';
import { deliveriesPage } from '../queries/deliveries.ts';
import { failingWebhooks } from '../queries/failing-webhooks.ts';
import { takeShownOnce } from '../after-redirect.ts';
import { deliveriesPages } from './deliveries.tsx';
import { deliveryPage } from './delivery.tsx';
import { secretForms, WebhookSecret } from './webhook-secret.tsx';

const PATH = '/dashboard/directories/:id/webhook';

/** How many deliveries this page lists. A page of their own lists all. */
const LATEST = 5;

const DONE = {
  saved: 'The URL is saved.',
  removed: 'The URL is removed.',
  off: 'Webhooks are off for this directory.',
  account: 'This directory uses the account’s webhook again.',
  renewed: 'The new secret is ready. Give it to your receivers, then activate it.',
  activated: 'The new secret is active. The old one is no longer used.',
};
const PROBLEMS = { activate: 'There is no new secret to activate. Create one first.' };

export interface WebhookPageOptions {
  readonly rules: ChangeOptions & TrialRules;
  readonly mayReach: MayReach;
  readonly testTurn: Turn;
  readonly live: Live;
}

export function webhookPages(app: Hono<DashboardEnv>, { rules, mayReach, testTurn, live }: WebhookPageOptions): void {
  const { reads } = rules.database;
  const snippets = readSnippets();

  async function page(c: PageContext) {
    const directory = c.get('directory');
    const { id, webhook_url: url } = directory;
    const sendsTo = await receiverUrl(reads, directory);
    const path = `${pathOf(c)}/webhook`;
    const failing = (await failingWebhooks(reads, [id])).get(id);
    const { deliveries } = await deliveriesPage(reads, id, { limit: LATEST });
    const isShown = takeShownOnce(c) !== undefined;
    return c.render(
      <DirectoryLayout tab="Webhook" done={DONE} problems={PROBLEMS}>
        {failing && (
          <p class="problem">
            Webhooks are failing. Nothing has been delivered since <Time at={failing.since} />.{' '}
            <a href={`${path}/deliveries?state=failed`}>Show failed deliveries</a>
          </p>
        )}
        <Url
          url={url}
          path={path}
          warning={unreachable({ webhook_url: url }, mayReach)}
          sendsTo={sendsTo}
          usesAccount={directory.uses_account_webhook === 1}
        />
        <WebhookSecret directory={directory} path={path} isShown={isShown} mayReplace={isAdmin(c)} />
        <Section title="Latest deliveries">
          <DeliveryTable deliveries={deliveries} path={path}>
            <p>No deliveries yet. Save a URL and upload a file, or send a test.</p>
          </DeliveryTable>
          <a href={`${path}/deliveries`}>All deliveries</a>
        </Section>
        <Verification snippets={snippets} />
      </DirectoryLayout>,
    );
  }

  app.get(PATH, page);

  app.post(PATH, (c) =>
    submitted(c, page, async ({ webhook_url: text = '', ...given }) => {
      const webhook_url = text.trim() === '' ? null : text.trim();
      const { accountId, id, actor } = targetOf(c);
      const changed = changedFields(
        { ...given, webhook_url: text },
        { webhook_url: c.get('directory').webhook_url ?? '' },
      );
      if (changed.webhook_url !== undefined) await updateWebhook(rules, { accountId, id, actor }, { webhook_url });
      return `${c.req.path}?done=${webhook_url === null ? 'removed' : 'saved'}`;
    }),
  );

  app.post(`${PATH}/off`, (c) =>
    submitted(c, page, async () => {
      await updateWebhook(rules, targetOf(c), { webhook_url: null, uses_account_webhook: false });
      return `${pathOf(c)}/webhook?done=off`;
    }),
  );
  app.post(`${PATH}/account`, (c) =>
    submitted(c, page, async () => {
      await updateWebhook(rules, targetOf(c), { uses_account_webhook: true });
      return `${pathOf(c)}/webhook?done=account`;
    }),
  );

  // The result of a test is shown in the response to the POST, since it is not stored. A GET of the same URL leads back.
  app.get(`${PATH}/test`, (c) => c.redirect(`${pathOf(c)}/webhook`, 303));
  app.post(`${PATH}/test`, (c) =>
    submitted(c, page, async () => {
      const target = targetOf(c);
      await testTurn(target.accountId, c.env.outgoing);
      const trial = await tryWebhook(rules, target);
      return c.render(
        <DirectoryLayout tab="Webhook" page="Test">
          <TrialResult trial={trial} />
          <div class="actions">
            <ActionButton label="Send test" />
            <a href={`${pathOf(c)}/webhook`}>Back to the webhook</a>
          </div>
        </DirectoryLayout>,
      );
    }),
  );

  secretForms(app, rules, page);
  deliveriesPages(app, rules, live);
  deliveryPage(app, rules);
}

interface UrlProps {
  /** The directory's own URL. */
  readonly url: string | null;
  readonly path: string;
  /** Why webhooks to this URL will be refused. */
  readonly warning: string | undefined;
  /** Where webhooks go: `url`, the account's, or nowhere. */
  readonly sendsTo: string | null;
  readonly usesAccount: boolean;
}

const Url: FC<UrlProps> = ({ url, path, warning, sendsTo, usesAccount }) => (
  <Section title="URL" about="berth sends a signed POST request to it for each file that has arrived.">
    <Form action={path}>
      <Was of={{ webhook_url: url ?? '' }} />
      <Field
        label="Webhook URL"
        name="webhook_url"
        type="url"
        value={url ?? ''}
        hint={usesAccount ? 'Leave it empty to use the account’s URL, if it has one.' : undefined}
      />
      <button>Save</button>
    </Form>
    {warning !== undefined && <p class="problem">Saved, but nothing will arrive there: {warning}.</p>}
    {url === null && sendsTo !== null && (
      <p>
        Webhooks go to the account’s URL, <Name of={sendsTo} href="/dashboard/account" />, signed with the account’s
        secret.
      </p>
    )}
    {url === null && !usesAccount && <p>Webhooks are off for this directory, even if the account has a URL.</p>}
    <div class="actions">
      {sendsTo !== null && <ActionButton action={`${path}/test`} label="Send test" />}
      {url !== null && (
        <ActionButton
          action={path}
          label="Remove URL"
          kind="danger"
          fields={{ webhook_url: '' }}
          confirm={
            usesAccount
              ? 'Webhooks then go to the account’s URL, or nowhere if it has none.'
              : 'No webhooks are sent for this directory then.'
          }
        />
      )}
      {usesAccount ? (
        <ActionButton
          action={`${path}/off`}
          label="Turn webhooks off"
          kind="danger"
          confirm="No webhooks are sent for this directory then. Pending deliveries fail."
        />
      ) : (
        <ActionButton action={`${path}/account`} label="Use the account’s webhook" />
      )}
    </div>
  </Section>
);
