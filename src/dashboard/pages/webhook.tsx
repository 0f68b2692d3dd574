/** A directory's webhook: where it goes, what signs it, a test, its latest deliveries, and how to verify it. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { ChangeDependencies } from '../../directories/change.ts';
import { liveDirectory } from '../../directories/target.ts';
import { updateBasics } from '../../directories/update.ts';
import type { FieldErrors } from '../../errors.ts';
import type { Turn } from '../../http/turns.ts';
import { type MayReach, unreachable } from '../../http/warnings.ts';
import { type TrialRules, tryWebhook } from '../../webhooks/try.ts';
import { DeliveryTable } from '../components/delivery-table.tsx';
import { DirectoryLayout } from '../components/directory-tabs.tsx';
import { TrialResult } from '../components/exchange.tsx';
import { ActionButton, Field, Form } from '../components/form.tsx';
import { Section } from '../components/section.tsx';
import { Time } from '../components/values.tsx';
import { readSnippets, Verification } from '../components/verification.tsx';
import { WebhookSecret } from '../components/webhook-secret.tsx';
import { askerOf, type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { fieldErrors, type FormFields, formFields, noticeOf } from '../form.ts';
import { deliveriesPage } from '../queries/deliveries.ts';
import { failingWebhooks } from '../queries/failing-webhooks.ts';
import { takeShownOnce } from '../shown-once.ts';
import { deliveriesPages } from './deliveries.tsx';
import { deliveryPage } from './delivery.tsx';
import { secretForms } from './webhook-secret.ts';

const PATH = '/dashboard/directories/:id/webhook';

/** Deliveries on this page; all of them are on one of their own. */
const LATEST = 5;

const DONE = {
  saved: 'The URL is saved.',
  removed: 'The URL is removed. Nothing is sent until there is one again.',
  renewed: 'The new secret is made. Give it to your receivers, then activate it.',
  activated: 'The new secret is active, and the old one has ended.',
};

export interface WebhookPageDependencies {
  readonly rules: ChangeDependencies & TrialRules;
  readonly mayReach: MayReach;
  readonly testTurn: Turn;
}

/** The page; with `errors`, what was given stands in it again. */
export type ShowWebhook = (c: PageContext<typeof PATH>, given?: FormFields, errors?: FieldErrors) => Promise<Response>;

export function webhookPages(app: Hono<DashboardEnv>, deps: WebhookPageDependencies): void {
  const { rules, testTurn } = deps;
  const show = webhookView(deps);

  app.get(PATH, (c) => show(c));

  app.post(PATH, async (c) => {
    const given = await formFields(c);
    const text = given['webhook_url']?.trim() ?? '';
    const webhook_url = text === '' ? null : text;
    const { accountId, id } = targetOf(c, c.req.param('id'));
    const errors = await fieldErrors(() => updateBasics(rules, accountId, id, { webhook_url }, askerOf(c)));
    if (errors) return show(c, given, errors);
    return c.redirect(`${c.req.path}?done=${webhook_url === null ? 'removed' : 'saved'}`, 303);
  });

  // The answer is a page of its own, since nothing of a test is kept. Its address alone leads back.
  app.get(`${PATH}/test`, (c) => c.redirect(c.req.path.replace(/\/test$/, ''), 303));
  app.post(`${PATH}/test`, async (c) => {
    const target = targetOf(c, c.req.param('id'));
    const directory = await liveDirectory(rules.database.reads, target);
    if (directory.webhook_url === null) return show(c, {}, { webhook_url: ["can't be blank"] });
    await testTurn(target.accountId, c.env.outgoing);
    const trial = await tryWebhook(rules, target);
    return c.render(
      <DirectoryLayout directory={directory} tab="Webhook">
        <TrialResult trial={trial} />
        <div class="actions">
          <ActionButton label="Send test" />
          <a href={`/dashboard/directories/${directory.id}/webhook`}>Back to the webhook</a>
        </div>
      </DirectoryLayout>,
    );
  });

  secretForms(app, rules, show);
  deliveriesPages(app, rules);
  deliveryPage(app, rules);
}

function webhookView({ rules, mayReach }: Pick<WebhookPageDependencies, 'rules' | 'mayReach'>): ShowWebhook {
  const { reads } = rules.database;
  const snippets = readSnippets();

  return async (c, given = {}, errors?) => {
    const directory = await liveDirectory(reads, targetOf(c, c.req.param('id')));
    const { id, webhook_url: url } = directory;
    const path = `/dashboard/directories/${id}/webhook`;
    const failing = (await failingWebhooks(reads, [id])).get(id);
    const { deliveries } = await deliveriesPage(reads, id, { limit: LATEST });
    const isShown = takeShownOnce(c) !== undefined;
    const mayReplace = c.get('user').principal.role === 'admin';
    const form = { path, given, errors };
    const notice = errors ? undefined : noticeOf(c, DONE);
    const problem = errors?.['activate'] && 'There is no new secret to activate. Make one first.';
    if (errors) c.status(422);
    return c.render(
      <DirectoryLayout directory={directory} tab="Webhook" notice={notice} problem={problem}>
        {failing && (
          <p class="problem">
            Webhooks fail: nothing has been delivered since <Time at={failing.since} />.{' '}
            <a href={`${path}/deliveries?state=failed`}>See what failed</a>
          </p>
        )}
        <Url {...form} url={url} warning={unreachable({ webhook_url: url }, mayReach)} />
        <WebhookSecret {...form} directory={directory} isShown={isShown} mayReplace={mayReplace} />
        <Section title="Latest deliveries">
          {deliveries.length > 0 ? (
            <DeliveryTable deliveries={deliveries} path={path} />
          ) : (
            <p>Nothing has been sent yet. Save a URL and upload a file, or send a test.</p>
          )}
          <a href={`${path}/deliveries`}>All deliveries</a>
        </Section>
        <Verification snippets={snippets} />
      </DirectoryLayout>,
    );
  };
}

interface UrlProps {
  readonly url: string | null;
  readonly path: string;
  /** Why nothing will get there. */
  readonly warning: string | undefined;
  readonly given: FormFields;
  readonly errors?: FieldErrors | undefined;
}

const Url: FC<UrlProps> = ({ url, path, warning, given, errors }) => (
  <Section title="URL" about="berth sends a signed POST there when a file has arrived.">
    <Form action={path}>
      <Field
        label="Webhook URL"
        name="webhook_url"
        type="url"
        value={given['webhook_url'] ?? url ?? ''}
        errors={errors}
        hint="Left empty, nothing is sent."
      />
      <button>Save</button>
    </Form>
    {warning !== undefined && <p class="problem">Nothing will get there: {warning}.</p>}
    {url !== null && (
      <div class="actions">
        <ActionButton action={`${path}/test`} label="Send test" />
        <ActionButton
          action={path}
          label="Remove URL"
          kind="danger"
          fields={{ webhook_url: '' }}
          confirm="Remove the URL? Nothing is sent until there is one again."
        />
      </div>
    )}
  </Section>
);
