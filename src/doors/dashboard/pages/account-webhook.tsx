/** The sections of the Account page with the account's webhook, for directories without a URL of their own. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import { accountWebhook, noteSecretShown, renewSecret, setAccountWebhook } from '../../../rules/directories/webhook.ts';
import { unreachable } from '../../web/warnings.ts';
import { ValidationError } from '../../../foundation/base/errors.ts';
import { tryWebhook } from '../../../deliveries/webhooks/try.ts';
import { TrialResult } from '../components/exchange.tsx';
import { ActionButton } from '../components/form.tsx';
import { choiceIn, WebhookTarget } from '../components/webhook-target.tsx';
import { Layout } from '../components/layout.tsx';
import { Facts } from '../components/values.tsx';
import { accountTarget, type DashboardEnv, isAdmin, type PageContext, targetOf } from '../environment.ts';
import { submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { takeShownOnce } from '../after-redirect.ts';
import { directoryForTest } from '../queries/account.ts';
import { SECRET_DONE, SECRET_PROBLEMS, secretForms, SigningSecret } from './webhook-secret.tsx';

const PATH = '/dashboard/account';

export const WEBHOOK_DONE = { webhook: 'The webhook is saved.', ...SECRET_DONE };
export const WEBHOOK_PROBLEMS = {
  ...SECRET_PROBLEMS,
  webhook_url: 'There is nothing to test. Save a URL, and create a directory without a webhook URL of its own.',
};

export function accountWebhookForms(
  app: Hono<DashboardEnv>,
  context: AppContext,
  page: (c: PageContext) => Promise<Response>,
): void {
  app.post(`${PATH}/webhook`, adminOnly, (c) =>
    submitted(c, page, async (given) => {
      const url = (given['url'] ?? '').trim();
      const to = choiceIn(given, url);
      if (to === 'own' && url === '') throw new ValidationError({ url: ["can't be blank"] });
      await setAccountWebhook(context, accountTarget(c), { url: to === 'own' ? url : null });
      return `${PATH}?done=webhook`;
    }),
  );

  // Like the test on a directory's page.
  app.get(`${PATH}/webhook/test`, (c) => c.redirect(PATH, 303));
  app.post(`${PATH}/webhook/test`, (c) =>
    submitted(c, page, async () => {
      const { accountId } = c.get('user').principal;
      const directory = await directoryForTest(context.database.reads, accountId);
      await context.web.testTurn(accountId, c.env.outgoing);
      const trial = await tryWebhook(context, targetOf(c, directory));
      return c.render(
        <Layout title="Test of the account’s webhook">
          <TrialResult trial={trial} />
          <div class="actions">
            <ActionButton label="Send another test" busy="Sending…" />
            <a href={`${PATH}#webhook`}>Back to the account</a>
          </div>
        </Layout>,
      );
    }),
  );

  secretForms(
    app,
    {
      route: `${PATH}/webhook/secret`,
      pageOf: () => PATH,
      noteShown: (c) => noteSecretShown(context, accountTarget(c)),
      renew: (c, fields) => renewSecret(context, accountTarget(c), fields),
    },
    page,
  );
}

/** The sections for the account's webhook, as the user may see them. */
export async function accountWebhookSections(c: PageContext, { database: { reads }, mayReach }: AppContext) {
  const webhook = await accountWebhook(reads, c.get('user').principal.accountId);
  const isShown = takeShownOnce(c) !== undefined;
  const warning = unreachable({ webhook_url: webhook.url }, mayReach);
  return (
    <>
      <WebhookTarget
        about="Directories without a webhook URL of their own send their webhooks here."
        path={`${PATH}/webhook`}
        name="url"
        url={webhook.url}
        choices={{ own: 'To this URL', off: 'Nowhere: only directories with a URL of their own send webhooks' }}
        chosen={webhook.url === null ? 'off' : 'own'}
        warning={warning}
        canTest={webhook.url !== null}
      >
        {isAdmin(c) ? undefined : <Facts of={{ URL: webhook.url ?? 'none' }} />}
      </WebhookTarget>
      {webhook.secret !== null && (
        <SigningSecret
          secret={webhook.secret}
          next={webhook.next_secret}
          path={`${PATH}/webhook/secret`}
          isShown={isShown}
          isAdmin={isAdmin(c)}
          about="It signs the webhooks that go to the account’s URL. A directory with a URL of its own has its own secret."
        />
      )}
    </>
  );
}
