/** The account: its plan and what is used of it, whether it asks for a second factor, and its audit. */
import type { Hono } from 'hono';
import { allowsApi, DIRECTORY_LIMITS } from '../../accounts/plans.ts';
import type { Clock } from '../../clock.ts';
import type { Database } from '../../db/open.ts';
import { ACTIONS, askerInWords, changesInWords, changesOf } from '../../history/audit-in-words.ts';
import { accountWebhook } from '../../directories/account-webhook.ts';
import { requireSecondFactor } from '../../users/second-factor.ts';
import { ActionButton, Field } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Empty, Pager, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { Badge, Facts, Size, Time } from '../components/values.tsx';
import { askerOf, type DashboardEnv, isAdmin, type PageContext } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { type AuditRow, auditOf, directoryMeant, isSecondFactorRequired } from '../queries/account.ts';
import { storedIn } from '../queries/overview.ts';

import { accountWebhookForm, DefaultWebhook, WEBHOOK_SAVED } from './account-webhook.tsx';

const PATH = '/dashboard/account';
const PAGE = 50;

const DONE = {
  webhook: WEBHOOK_SAVED,
  yes: 'Everybody needs a second factor from now on.',
  no: 'A second factor is optional from now on.',
};

export function accountPage(app: Hono<DashboardEnv>, rules: { database: Database; clock: Clock }): void {
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const { accountId, plan } = c.get('user').principal;
    const { directory: wanted = '', before = '' } = c.req.query();
    const directory = await directoryMeant(reads, accountId, wanted);
    const isUnknown = wanted !== '' && directory === undefined;
    const rows = isUnknown ? [] : await auditOf(reads, accountId, { directory, before, limit: PAGE });
    const { directories, bytes } = await storedIn(reads, accountId);
    const isRequired = await isSecondFactorRequired(reads, accountId);
    const last = rows[PAGE - 1];
    const address = (row = '') => `${PATH}?${new URLSearchParams({ directory: wanted, before: row }).toString()}`;
    return c.render(
      <Layout title="Account" done={DONE}>
        <Section title="Plan">
          <Facts
            of={{
              Account: <Text of={c.get('user').accountName} />,
              Plan: plan,
              Directories: `${directories} of ${DIRECTORY_LIMITS[plan] ?? 'any number'}`,
              Storage: <Size bytes={bytes} />,
              API: allowsApi(plan) ? 'included' : 'not included: it is part of the Pro and Business plans',
            }}
          />
        </Section>
        <DefaultWebhook webhook={await accountWebhook(reads, accountId)} mayChange={isAdmin(c)} />
        <SecondFactor isRequired={isRequired} mayChange={isAdmin(c)} />
        <Section title="Changes">
          <form class="toolbar">
            <Field label="Directory" name="directory" value={wanted} hint="Its username or id. Empty: all." />
            <button class="plain">Show</button>
          </form>
          <Table caption="Newest first" columns={['When', 'What', 'Directory', 'By']} rows={rows.map(auditCells)}>
            <Empty title="No changes">
              What is created, changed or deleted on these pages or by the API is listed here.
            </Empty>
          </Table>
          <Pager of="changes" first={before ? address() : undefined} next={last && address(`${last.at}-${last.id}`)} />
        </Section>
      </Layout>,
    );
  }

  app.get(PATH, page);
  accountWebhookForm(app, rules, page);

  app.post(`${PATH}/second-factor`, adminOnly, async (c) => {
    const required = (await formFields(c))['required'] === 'yes' ? 'yes' : 'no';
    await requireSecondFactor(rules, required === 'yes', askerOf(c));
    return c.redirect(`${PATH}?done=${required}`, 303);
  });
}

const SecondFactor = ({ isRequired, mayChange }: { isRequired: boolean; mayChange: boolean }) => (
  <Section title="Second factor" about="Users who are asked for it set it up before they do anything else.">
    <Badge kind={isRequired ? 'good' : 'quiet'} text={isRequired ? 'required' : 'optional'} />{' '}
    {mayChange && (
      <ActionButton
        action={`${PATH}/second-factor`}
        label={isRequired ? 'Make it optional' : 'Require it of everybody'}
        fields={{ required: isRequired ? 'no' : 'yes' }}
      />
    )}
  </Section>
);

const auditCells = (row: AuditRow) => [
  <Time at={row.at} />,
  <>
    {ACTIONS[row.action]}{' '}
    <span class="quiet">
      <Text of={changesInWords(changesOf(row))} />
    </span>
  </>,
  row.live_id === null ? row.username : <a href={`/dashboard/directories/${row.live_id}`}>{row.username}</a>,
  <Text of={askerInWords(row)} />,
];
