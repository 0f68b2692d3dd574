/** The account: its plan and how much of it is used, its webhook, whether it requires a second factor, and its audit. */
import type { Hono } from 'hono';
import { allowsApi, DIRECTORY_LIMITS } from '../../../rules/accounts/accounts.ts';
import { changesInWords, changesOf } from '../../../rules/history/audit-in-words.ts';
import { auditSentence, fingerprintsIn, type KeyNames } from '../../../rules/history/audit-sentences.ts';
import { requireSecondFactor } from '../../../rules/users/second-factor.ts';
import { Candidates } from '../components/directory.tsx';
import { ActionButton, Field } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { capitalized, Empty, Pager, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { Badge, counted, Facts, Size, Time } from '../components/values.tsx';
import { csvAnswer, timeCell } from '../csv.ts';
import { actorOf, type DashboardEnv, isAdmin, type PageContext } from '../environment.ts';
import { formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { auditOf, type AuditRow, isSecondFactorRequired, keyNames } from '../queries/account.ts';
import { directoryMeant } from '../queries/directories.ts';
import type { Stored } from '../queries/overview.ts';
import {
  accountWebhookForms,
  type AccountWebhookPageOptions,
  accountWebhookSections,
  WEBHOOK_DONE,
  WEBHOOK_PROBLEMS,
} from './account-webhook.tsx';

const PATH = '/dashboard/account';
const PAGE = 50;
/** Changes that are read at once for an export. */
const CSV_BATCH = 500;
const CSV_HEADER = 'at,actor,deed,directory_id,username,route,request_id,changes'.split(',');

const DONE = {
  ...WEBHOOK_DONE,
  yes: 'Everyone needs a second factor from now on.',
  no: 'A second factor is optional from now on.',
};

interface AccountOptions extends AccountWebhookPageOptions {
  readonly stored: (accountId: string) => Promise<Stored>;
}

export function accountPage(app: Hono<DashboardEnv>, options: AccountOptions): void {
  const { rules, stored } = options;
  const { reads } = rules.database;

  async function page(c: PageContext) {
    const { accountId, plan } = c.get('user').principal;
    const { directory: wanted = '', before = '' } = c.req.query();
    const meant = wanted === '' ? { id: undefined } : await directoryMeant(reads, accountId, wanted);
    const candidates = 'candidates' in meant ? meant.candidates : undefined;
    const directory = 'id' in meant ? meant.id : undefined;
    const rows = candidates ? [] : await auditOf(reads, accountId, { directory, before, limit: PAGE });
    const { directories, bytes } = await stored(accountId);
    const isRequired = await isSecondFactorRequired(reads, accountId);
    const last = rows[PAGE - 1];
    const keys = await keyNames(reads, accountId, rows.flatMap(fingerprintsIn));
    const cells = (row: AuditRow) => auditCells(row, keys);
    const address = (row = '') => `${PATH}?${new URLSearchParams({ directory: wanted, before: row }).toString()}`;
    return c.render(
      <Layout title="Account" done={DONE} problems={WEBHOOK_PROBLEMS}>
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
        {await accountWebhookSections(c, options)}
        <SecondFactor isRequired={isRequired} mayChange={isAdmin(c)} />
        <Section title="Changes">
          <form class="toolbar">
            <Field label="Directory" name="directory" value={wanted} placeholder="Name or ID" />
            <button class="plain">Show</button>
            <a href={`${PATH}/audit.csv`}>Export as CSV</a>
          </form>
          {candidates ? (
            <Candidates
              of={candidates}
              text={wanted}
              addressOf={(id) => `${PATH}?${new URLSearchParams({ directory: id }).toString()}`}
            />
          ) : (
            <Table caption="Newest first" columns={['When', 'What', 'Directory', 'Details']} rows={rows.map(cells)}>
              <Empty title="No changes">
                Everything that is created, changed or deleted here or through the API appears here.
              </Empty>
            </Table>
          )}
          <Pager of="changes" first={before ? address() : undefined} next={last && address(`${last.at}-${last.id}`)} />
        </Section>
      </Layout>,
    );
  }

  app.get(PATH, page);
  accountWebhookForms(app, options, page);

  app.get(`${PATH}/audit.csv`, (c) => csvAnswer('audit', CSV_HEADER, csvRows(c.get('user').principal.accountId)));

  async function* csvRows(accountId: string) {
    for (let before: string | undefined, hasMore = true; hasMore;) {
      const rows = await auditOf(reads, accountId, { before, limit: CSV_BATCH });
      const keys = await keyNames(reads, accountId, rows.flatMap(fingerprintsIn));
      for (const row of rows) {
        const { actor, deed } = auditSentence(row, keys);
        yield [timeCell(row.at), actor, deed, row.directory_id, row.username, row.route, row.request_id, row.changes];
      }
      const last = rows.at(-1);
      before = last && `${last.at}-${last.id}`;
      hasMore = rows.length === CSV_BATCH;
    }
  }

  app.post(`${PATH}/second-factor`, adminOnly, async (c) => {
    const required = (await formFields(c))['required'] === 'yes' ? 'yes' : 'no';
    await requireSecondFactor(rules, required === 'yes', actorOf(c));
    return c.redirect(`${PATH}?done=${required}`, 303);
  });
}

const SecondFactor = ({ isRequired, mayChange }: { isRequired: boolean; mayChange: boolean }) => (
  <Section title="Second factor" about="Once it is required, users set it up before they do anything else.">
    <Badge kind={isRequired ? 'good' : 'quiet'} text={isRequired ? 'required' : 'optional'} />{' '}
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

const auditCells = (row: AuditRow, keys: KeyNames) => {
  const { actor, deed } = auditSentence(row, keys);
  return [
    <Time at={row.at} />,
    <Text of={`${actor} ${deed}`} />,
    row.live_id === null ? row.username : <a href={`/dashboard/directories/${row.live_id}`}>{row.username}</a>,
    <details>
      <summary>Show</summary>
      <p class="hint">
        <Text of={`${row.route}, request ${row.request_id}. ${changesInWords(changesOf(row))}`} most={1000} />
      </p>
    </details>,
  ];
};

function directoriesInWords(count: number, limit: number | undefined): string {
  return limit === undefined ? `${counted(count)} (no limit)` : `${counted(count)} of ${counted(limit)}`;
}
