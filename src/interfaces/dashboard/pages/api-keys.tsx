/** The account's API keys: lists them, creates one that is shown once, and revokes one after a confirmation. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import {
  type ApiKey,
  createKey,
  findKey,
  type IssuedKey,
  newestKeys,
  revokeKey,
  makersOf,
} from '../../../rules/api-keys/api-keys.ts';
import { allowsApi } from '../../../rules/accounts/accounts.ts';
import type { Micros } from '../../../foundation/base/clock.ts';
import { ActionButton, Field, Folded, Form } from '../components/form.tsx';
import { SettingsLayout } from '../components/layout.tsx';
import { LIMIT_FIELDS, LimitFields, limitsIn, limitsInWords, RoleField, usernamesOf } from '../components/rights.tsx';
import { Empty, Pager, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { madeBy, Badge, Copyable, Secret, Time } from '../components/values.tsx';
import { accountTarget, type DashboardEnv, isAdmin, type PageContext } from '../environment.ts';
import { isoTime, submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { onlyAdmins } from '../limits.ts';
import { takeShownOnce } from '../after-redirect.ts';
import { CreatingForms } from '../sent-forms.ts';

const PAGE = 50;
/** How many revoked keys are shown. */
const REVOKED = 20;
const PATH = '/dashboard/api-keys';
const REVOKE = `${PATH}/:id/revoke`;
const DONE = { revoked: 'The key is revoked.' };
const PROBLEMS = { role: 'Choose one of the roles.' };

export function apiKeysPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const { api, dashboard, tls } = context.config;
  /** The port of the API, if the dashboard has another one. */
  const apiHost = dashboard.own && `${tls.name}:${api.port}`;
  const { reads } = context.database;
  const sent = new CreatingForms(context);
  const keyOf = (c: PageContext, id = '') => findKey(reads, c.get('user').principal.accountId, id);

  async function page(c: PageContext) {
    const { accountId, plan } = c.get('user').principal;
    const after = await keyOf(c, c.req.query('after'));
    const keys = await newestKeys(reads, accountId, { after, limit: PAGE + 1, isRevoked: false });
    const revoked = after ? [] : await newestKeys(reads, accountId, { limit: REVOKED, isRevoked: true });
    const last = keys[PAGE] && keys[PAGE - 1];
    const made = takeShownOnce(c);
    const mayChange = isAdmin(c);
    const shownKeys = keys.slice(0, PAGE);
    const now = context.clock.now();
    const all = [...shownKeys, ...revoked];
    const shown = {
      usernames: await usernamesOf(reads, accountId, all),
      makers: await makersOf(reads, accountId, all),
      mayRevoke: mayChange,
      now,
    };
    const columns = ['Name', 'Role', 'Limits', 'Created', 'Last used', 'State', ...(mayChange ? ['Actions'] : [])];
    const mayCreate = allowsApi(plan) && mayChange;
    return c.render(
      <SettingsLayout
        tab="API keys"
        done={DONE}
        problems={PROBLEMS}
        actions={
          mayCreate && (
            <a class="button" href="#name">
              New key
            </a>
          )
        }
      >
        <Secret of={made} label="Your new API key">
          <Copyable text={command(made?.value ?? '', apiHost ?? c.req.header('host') ?? '')} label="command" />
        </Secret>
        <Table caption="Newest first" columns={columns} rows={shownKeys.map((key) => cellsOf(key, shown))}>
          <Empty title="No keys yet">Your programs need one to call the API.</Empty>
        </Table>
        <Pager of="keys" next={last && `${PATH}?after=${last.id}`} />
        {revoked.length > 0 && (
          <details>
            <summary>
              {revoked.length === REVOKED ? `The last ${REVOKED} revoked` : `${revoked.length} revoked`}
            </summary>
            <Table caption="Revoked, newest first" columns={columns} rows={revoked.map((key) => cellsOf(key, shown))} />
          </details>
        )}
        {!allowsApi(plan) && <NoApi plan={plan} />}
        {mayCreate && <NewKey />}
        {!mayChange && <p class="quiet">{onlyAdmins(c, 'create and revoke keys')}</p>}
      </SettingsLayout>,
    );
  }

  app.get(PATH, page);

  app.post(PATH, adminOnly, (c) =>
    submitted(c, page, async (given) => {
      const { name = '', role = '', expires_at = '' } = given;
      const limits = { ...limitsIn(given), ...(expires_at !== '' && { expires_at: isoTime(expires_at) }) };
      return sent.create<IssuedKey>(
        c,
        given,
        (target) => createKey(context, target, { name, role, ...limits }),
        ({ key }) => ({ kind: 'api-key', value: key, page: PATH }),
      );
    }),
  );

  app.post(REVOKE, adminOnly, async (c) => {
    const key = await keyOf(c, c.req.param('id'));
    if (!key) return c.notFound();
    await revokeKey(context, accountTarget(c), key.id);
    return c.redirect(`${PATH}?done=revoked`, 303);
  });
}

function command(key: string, host: string): string {
  return `curl -H 'Authorization: Bearer ${key}' https://${host}/api/v1/directories`;
}

interface Beside {
  readonly usernames: ReadonlyMap<string, string>;
  readonly makers: ReadonlyMap<string, string>;
  readonly mayRevoke: boolean;
  readonly now: Micros;
}

function cellsOf(key: ApiKey, { usernames, makers, mayRevoke, now }: Beside) {
  const { name, role, inserted_at, created_by, last_used_at, revoked_at } = key;
  return [
    <span class={revoked_at === null ? undefined : 'quiet'}>
      <Text of={name} />
    </span>,
    role,
    <Text of={limitsInWords(key, usernames)} />,
    <>
      <Time at={inserted_at} />
      <Text of={madeBy(created_by, makers)} />
    </>,
    <Time at={last_used_at} />,
    <State of={key} now={now} />,
    ...(mayRevoke ? [<Revoke of={key} now={now} />] : []),
  ];
}

const State = ({ of: { revoked_at, expires_at }, now }: StateProps) => {
  if (revoked_at !== null)
    return (
      <>
        <Badge kind="quiet" text="revoked" /> <Time at={revoked_at} />
      </>
    );
  if (expires_at !== null && expires_at <= now)
    return (
      <>
        <Badge kind="quiet" text="expired" /> <Time at={expires_at} />
      </>
    );
  return (
    <>
      {expires_at !== null && (
        <>
          expires <Time at={expires_at} />
        </>
      )}
    </>
  );
};

const Revoke = ({ of: { id, name, revoked_at, expires_at }, now }: StateProps) =>
  revoked_at === null && (expires_at === null || expires_at > now) ? (
    <ActionButton
      action={`${PATH}/${id}/revoke`}
      label="Revoke"
      about={name}
      kind="danger"
      confirm="Programs that use it stop working immediately. This can’t be undone."
    />
  ) : (
    <></>
  );

interface StateProps {
  readonly of: ApiKey;
  readonly now: Micros;
}

const NoApi = ({ plan }: { plan: string }) => (
  <Section
    title="No API on this plan"
    about={`API keys are for programs that call berth's API, which is part of the Pro and Business plans. Your account is on the ${plan} plan: manage your directories on these pages, or ask the operator of this server for another plan.`}
  />
);

const NewKey = () => (
  <Section title="New key">
    <Form isOnce>
      <Field label="Name" name="name" hint="What it’s for, such as the program that uses it." isRequired />
      <RoleField />
      <Folded summary="Limit the key" fields={[...LIMIT_FIELDS, 'expires_at']}>
        <LimitFields whose="The key" />
        <Field label="Expires" name="expires_at" type="datetime-local" hint="Leave empty for no expiry." />
      </Folded>
      <button>Create key</button>
    </Form>
  </Section>
);
