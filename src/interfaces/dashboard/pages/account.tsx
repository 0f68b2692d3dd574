/** The account: its plan and how much of it is used, its webhook, and whether it requires a second factor. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import { allowsApi, DIRECTORY_LIMITS } from '../../../rules/accounts/accounts.ts';
import { accountWebhook, noteSecretShown, renewSecret, setAccountWebhook } from '../../../rules/directories/webhook.ts';
import { isSecondFactorRequired, requireSecondFactor } from '../../../rules/users/second-factor.ts';
import { TrialResult } from '../components/exchange.tsx';
import { unreachable } from '../../web/warnings.ts';
import { wrongField } from '../../../foundation/base/errors.ts';
import { directoryForTest, type Trial } from '../../../deliveries/webhooks/try.ts';
import { ActionButton } from '../components/form.tsx';
import { SettingsLayout } from '../components/layout.tsx';
import { capitalized, Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Badge, counted, Facts, Size } from '../components/values.tsx';
import { choiceIn, WebhookTarget } from '../components/webhook-target.tsx';
import { accountTarget, type DashboardEnv, isAdmin, type PageContext, targetOf } from '../environment.ts';
import { formFields, submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';
import type { Stored } from '../../../rules/directories/view.ts';
import { SECRET_DONE, SECRET_PROBLEMS, SigningSecret, webhookForms } from './webhook-forms.tsx';

const PATH = '/dashboard/account';

const DONE = {
  webhook: 'The webhook is saved.',
  ...SECRET_DONE,
  yes: 'Everyone needs two-factor sign-in from now on.',
  no: 'Two-factor sign-in is optional from now on.',
};

const PROBLEMS = {
  ...SECRET_PROBLEMS,
  webhook_url: 'There is nothing to test. Save a URL, and create a directory without a webhook URL of its own.',
};

export function accountPage(
  app: Hono<DashboardEnv>,
  context: AppContext,
  stored: (accountId: string) => Promise<Stored>,
): void {
  const { database, mayReach } = context;
  const { reads } = database;

  async function page(c: PageContext, trial?: Trial) {
    const { accountId, plan } = c.get('user').principal;
    const { directories, bytes } = await stored(accountId);
    const isRequired = await isSecondFactorRequired(reads, accountId);
    const webhook = await accountWebhook(reads, accountId);
    return c.render(
      <SettingsLayout tab="Account" done={DONE} problems={PROBLEMS}>
        {trial && <TrialResult trial={trial} />}
        <Section title="Plan">
          <Facts
            of={{
              Account: <Text of={c.get('user').accountName} />,
              Plan: capitalized(plan),
              Directories: directoriesInWords(directories, DIRECTORY_LIMITS[plan]),
              Storage: <Size bytes={bytes} />,
              API: allowsApi(plan) ? 'Included' : 'Not included. It is part of the Pro and Business plans.',
            }}
          />
        </Section>
        <WebhookTarget
          about="Directories without a webhook URL of their own send their webhooks here."
          path={`${PATH}/webhook`}
          name="url"
          url={webhook.url}
          choices={{ own: 'To this URL', off: 'Nowhere: only directories with a URL of their own send webhooks' }}
          chosen={webhook.url === null ? 'off' : 'own'}
          warning={unreachable({ webhook_url: webhook.url }, mayReach)}
          canTest={webhook.url !== null}
        >
          {isAdmin(c) ? undefined : <Facts of={{ URL: webhook.url ?? 'none' }} />}
        </WebhookTarget>
        {webhook.secret !== null && (
          <SigningSecret
            hasNext={webhook.next_secret !== null}
            path={`${PATH}/webhook/secret`}
            about="It signs the webhooks that go to the account’s URL. A directory with a URL of its own has its own secret."
          />
        )}
        <SecondFactor isRequired={isRequired} mayChange={isAdmin(c)} />
      </SettingsLayout>,
    );
  }

  app.get(PATH, (c) => page(c));

  app.post(`${PATH}/webhook`, adminOnly, (c) =>
    submitted(
      c,
      (again) => page(again),
      async (given) => {
        const url = (given['url'] ?? '').trim();
        const to = choiceIn(given, url);
        if (to === 'own' && url === '') throw wrongField('url', 'blank');
        await setAccountWebhook(context, accountTarget(c), { url: to === 'own' ? url : null });
        return `${PATH}?done=webhook`;
      },
    ),
  );

  webhookForms(
    app,
    {
      route: `${PATH}/webhook`,
      pageOf: () => PATH,
      testOf: async (c) => targetOf(c, await directoryForTest(reads, c.get('user').principal.accountId)),
      noteShown: (c) => noteSecretShown(context, accountTarget(c)),
      async secretsOf(c) {
        const { secret, next_secret: next } = await accountWebhook(reads, c.get('user').principal.accountId);
        return { secret, next };
      },
      renew: (c, fields) => renewSecret(context, accountTarget(c), fields),
    },
    context,
    page,
  );

  app.post(`${PATH}/second-factor`, adminOnly, async (c) => {
    const required = (await formFields(c))['required'] === 'yes' ? 'yes' : 'no';
    await requireSecondFactor(context, accountTarget(c), required === 'yes');
    return c.redirect(`${PATH}?done=${required}`, 303);
  });
}

const SecondFactor = ({ isRequired, mayChange }: { isRequired: boolean; mayChange: boolean }) => (
  <Section title="Two-factor sign-in" about="Once it is required, users set it up before they do anything else.">
    <Badge kind="quiet" text={isRequired ? 'required' : 'optional'} />{' '}
    {mayChange && (
      <ActionButton
        action={`${PATH}/second-factor`}
        label={isRequired ? 'Make optional' : 'Require for everyone'}
        about="two-factor sign-in"
        confirm={
          isRequired
            ? 'Users may turn it off for themselves.'
            : 'Users without one have to set it up before they do anything else.'
        }
        fields={{ required: isRequired ? 'no' : 'yes' }}
      />
    )}
  </Section>
);

function directoriesInWords(count: number, limit: number | undefined): string {
  return limit === undefined ? `${counted(count)} (no limit)` : `${counted(count)} of ${counted(limit)}`;
}
