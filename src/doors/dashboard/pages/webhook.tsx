/** A directory's webhook: its health, its URL and a test, its secret, its latest deliveries, and code that verifies it. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { RuleContext } from '../../../rules/directories/target.ts';
import { noteSecretShown, renewSecret, updateWebhook } from '../../../rules/directories/webhook.ts';
import type { Turn } from '../../web/turns.ts';
import { type MayReach, unreachable } from '../../web/warnings.ts';
import { receiverIfAny, receiverUrl } from '../../../deliveries/webhooks/receiver-of.ts';
import { type TrialRules, tryWebhook } from '../../../deliveries/webhooks/try.ts';
import { DeliveryTable, TrialResult } from '../components/exchange.tsx';
import { changedFields } from '../changed-fields.ts';
import { ActionButton, Field, Form, Was } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Name } from '../components/text.tsx';
import { readSnippets, Verification } from '../components/verification.tsx';
import { WebhookHealthLine } from '../components/webhook-health.tsx';
import { accountTarget, type DashboardEnv, isAdmin, type PageContext, pathOf, targetOf } from '../environment.ts';
import { submitted } from '../form.ts';
import { deliveriesOf } from '../directories-view.ts';
import { latestDeliveries } from '../queries/deliveries.ts';
import { webhookHealth } from '../queries/webhook-health.ts';
import { takeShownOnce } from '../after-redirect.ts';
import { deliveryPage } from './delivery.tsx';
import { SECRET_DONE, SECRET_PROBLEMS, secretForms, SigningSecret } from './webhook-secret.tsx';

const PATH = '/dashboard/directories/:id/webhook';

/** How many deliveries this page lists. */
const LATEST = 5;

const DONE = {
  saved: 'The URL is saved.',
  removed: 'The URL is removed.',
  off: 'Webhooks are off for this directory.',
  account: 'This directory uses the account’s webhook again.',
  ...SECRET_DONE,
};

export interface WebhookPageOptions {
  readonly rules: RuleContext & TrialRules;
  readonly mayReach: MayReach;
  readonly testTurn: Turn;
}

export function webhookPages(app: Hono<DashboardEnv>, { rules, mayReach, testTurn }: WebhookPageOptions): void {
  const { reads } = rules.database;
  const snippets = readSnippets();

  async function page(c: PageContext) {
    const directory = c.get('directory');
    const { id, webhook_url: url } = directory;
    const receiver = await receiverIfAny(reads, directory);
    const path = `${pathOf(c)}/webhook`;
    const health = await webhookHealth(reads, id, { now: rules.clock.now(), url: receiver?.url });
    const deliveries = await latestDeliveries(reads, id, LATEST);
    const isShown = takeShownOnce(c) !== undefined;
    const isOfAccount = url === null && receiver !== undefined;
    const { webhook_secret: secret, next_webhook_secret: next } = receiver ?? directory;
    return c.render(
      <DirectoryLayout tab="Webhook" done={DONE} problems={SECRET_PROBLEMS}>
        <WebhookHealthLine of={health} deliveries={deliveriesOf(id)} hasReceiver={receiver !== undefined} />
        <Endpoint
          url={url}
          path={path}
          warning={unreachable({ webhook_url: url }, mayReach)}
          sendsTo={receiver?.url}
          usesAccount={directory.uses_account_webhook === 1}
        />
        <SigningSecret
          secret={secret}
          next={next}
          path={`${path}/secret`}
          isShown={isShown}
          isAdmin={isAdmin(c)}
          about={isOfAccount ? SIGNED_BY.account : receiver ? SIGNED_BY.directory : SIGNED_BY.nothing}
          elsewhere={
            isOfAccount ? (
              <>
                Replace it on the <a href="/dashboard/account#webhook">Account page</a>.
              </>
            ) : undefined
          }
        />
        <Section title="Latest deliveries">
          <DeliveryTable deliveries={deliveries} path={path}>
            <p class="quiet">{receiver ? 'Tests and deliveries appear here.' : 'Save a URL to receive webhooks.'}</p>
          </DeliveryTable>
          {deliveries.length > 0 && <a href={deliveriesOf(id)}>All deliveries</a>}
        </Section>
        <Verification snippets={snippets} />
      </DirectoryLayout>,
    );
  }

  app.get(PATH, page);

  app.post(PATH, (c) =>
    submitted(c, page, async ({ webhook_url: text = '', ...given }) => {
      const webhook_url = text.trim() === '' ? null : text.trim();
      const changed = changedFields(
        { ...given, webhook_url: text },
        { webhook_url: c.get('directory').webhook_url ?? '' },
      );
      if (changed.webhook_url !== undefined) await updateWebhook(rules, targetOf(c), { webhook_url });
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

  secretForms(
    app,
    {
      route: `${PATH}/secret`,
      pageOf: (c) => `${pathOf(c)}/webhook`,
      async noteShown(c) {
        const directory = c.get('directory');
        const isOfAccount = directory.webhook_url === null && (await receiverUrl(reads, directory)) !== null;
        await noteSecretShown(rules, isOfAccount ? accountTarget(c) : targetOf(c));
      },
      renew: (c, fields) => renewSecret(rules, targetOf(c), fields),
    },
    page,
  );
  app.get(`${PATH}/deliveries`, (c) => c.redirect(deliveriesOf(c.get('directory').id), 303));
  deliveryPage(app, rules);
}

/** What is said about the secret, by whose it is. */
const SIGNED_BY = {
  account: 'This directory’s webhooks go to the account’s URL. The account’s secret signs them.',
  directory: 'It signs this directory’s webhooks, so that your receiver can tell who sent them.',
  nothing: 'It signs this directory’s webhooks once the directory has a URL of its own.',
};

interface EndpointProps {
  /** The directory's own URL. */
  readonly url: string | null;
  readonly path: string;
  /** Why webhooks to this URL will be refused. */
  readonly warning: string | undefined;
  /** Where webhooks go: `url`, the account's, or nowhere. */
  readonly sendsTo: string | undefined;
  readonly usesAccount: boolean;
}

const Endpoint: FC<EndpointProps> = ({ url, path, warning, sendsTo, usesAccount }) => (
  <Section title="Endpoint" about="berth sends a signed POST request here for each file that has arrived.">
    <div class="beside">
      <Form action={path}>
        <Was of={{ webhook_url: url ?? '' }} />
        <Field
          label="Webhook URL"
          name="webhook_url"
          type="url"
          value={url ?? ''}
          placeholder="https://example.com/hooks/sftp"
        />
        <button>Save</button>
      </Form>
      {sendsTo !== undefined && <ActionButton action={`${path}/test`} label="Send test" />}
    </div>
    {warning !== undefined && <p class="problem">Saved, but nothing will arrive there: {warning}.</p>}
    {url === null && sendsTo !== undefined && (
      <p>
        Webhooks go to the account’s URL, <Name of={sendsTo} href="/dashboard/account#webhook" />.
      </p>
    )}
    {url === null && usesAccount && sendsTo === undefined && (
      <p class="hint">The account has no URL either, so no webhooks are sent for this directory.</p>
    )}
    {url === null && !usesAccount && <p>Webhooks are off for this directory, even if the account has a URL.</p>}
    {url !== null && usesAccount && <p class="hint">Without a URL of its own, the directory uses the account’s.</p>}
    <div class="actions">
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
