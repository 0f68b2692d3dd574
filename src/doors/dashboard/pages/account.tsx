/** The account: its plan and how much of it is used, its webhook, and whether it requires a second factor. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import { allowsApi, DIRECTORY_LIMITS } from '../../../rules/accounts/accounts.ts';
import { requireSecondFactor } from '../../../rules/users/second-factor.ts';
import { ActionButton } from '../components/form.tsx';
import { SettingsLayout } from '../components/layout.tsx';
import { capitalized, Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Badge, counted, Facts, Size } from '../components/values.tsx';
import { accountTarget, type DashboardEnv, isAdmin, type PageContext } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { isSecondFactorRequired } from '../queries/account.ts';
import type { Stored } from '../queries/home.ts';
import { accountWebhookForms, accountWebhookSections, WEBHOOK_DONE, WEBHOOK_PROBLEMS } from './account-webhook.tsx';

const PATH = '/dashboard/account';

const DONE = {
  ...WEBHOOK_DONE,
  yes: 'Everyone needs a second factor from now on.',
  no: 'A second factor is optional from now on.',
};

export function accountPage(
  app: Hono<DashboardEnv>,
  context: AppContext,
  stored: (accountId: string) => Promise<Stored>,
): void {
  const { reads } = context.database;

  async function page(c: PageContext) {
    const { accountId, plan } = c.get('user').principal;
    const { directories, bytes } = await stored(accountId);
    const isRequired = await isSecondFactorRequired(reads, accountId);
    return c.render(
      <SettingsLayout tab="Account" done={DONE} problems={WEBHOOK_PROBLEMS}>
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
        {await accountWebhookSections(c, context)}
        <SecondFactor isRequired={isRequired} mayChange={isAdmin(c)} />
      </SettingsLayout>,
    );
  }

  app.get(PATH, page);
  accountWebhookForms(app, context, page);

  app.post(`${PATH}/second-factor`, adminOnly, async (c) => {
    const required = (await formFields(c))['required'] === 'yes' ? 'yes' : 'no';
    await requireSecondFactor(context, accountTarget(c), required === 'yes');
    return c.redirect(`${PATH}?done=${required}`, 303);
  });
}

const SecondFactor = ({ isRequired, mayChange }: { isRequired: boolean; mayChange: boolean }) => (
  <Section title="Second factor" about="Once it is required, users set it up before they do anything else.">
    <Badge kind="quiet" text={isRequired ? 'required' : 'optional'} />{' '}
    {mayChange && (
      <ActionButton
        action={`${PATH}/second-factor`}
        label={isRequired ? 'Make optional' : 'Require for everyone'}
        about="second factor"
        confirm={
          isRequired
            ? 'Users may turn their second factor off.'
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
