/** API keys: all of the account, a new one that is shown once, and revoking one after a question. */
import type { Hono } from 'hono';
import { type ApiKey, createKey, findKey, newestKeys, revokeKey } from '../../accounts/api-keys.ts';
import type { Environment } from '../../accounts/key-format.ts';
import { allowsApi } from '../../accounts/plans.ts';
import type { Clock } from '../../clock.ts';
import type { Database } from '../../db/open.ts';
import type { FieldErrors } from '../../errors.ts';
import { KeyTable, NewKey, NewKeyForm } from '../components/api-keys.tsx';
import { Form } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Text } from '../components/text.tsx';
import { Time } from '../components/values.tsx';
import { askerOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { fieldErrors, type FormFields, formFields } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { showOnce, takeShownOnce } from '../shown-once.ts';

const PAGE = 50;
const PATH = '/dashboard/api-keys';

export interface ApiKeysDependencies {
  readonly database: Database;
  readonly clock: Clock;
  readonly environment: Environment;
  /** Host and port of the API; undefined where it is the dashboard's own. */
  readonly apiHost: string | undefined;
}

export function apiKeysPage(app: Hono<DashboardEnv>, { apiHost, ...rules }: ApiKeysDependencies): void {
  const { reads } = rules.database;

  async function page(c: PageContext, given: FormFields = {}, errors?: FieldErrors) {
    const { accountId, plan, role } = c.get('user').principal;
    const after = await findKey(reads, accountId, c.req.query('after') ?? '');
    const keys = await newestKeys(reads, accountId, { after, limit: PAGE });
    const made = takeShownOnce(c);
    const mayChange = role === 'admin';
    const notice = c.req.query('done') === 'revoked' ? 'The key is revoked.' : undefined;
    return c.render(
      <Layout title="API keys" notice={notice} problem={errors?.['role'] && 'Choose one of the roles.'}>
        {made && <NewKey apiKey={made.value} host={apiHost ?? c.req.header('host') ?? ''} />}
        <KeyTable keys={keys} mayRevoke={mayChange} />
        {keys.length === PAGE && <a href={`${PATH}?after=${keys.at(-1)?.id}`}>Older keys</a>}
        {!allowsApi(plan) && <NoApi plan={plan} />}
        {allowsApi(plan) && mayChange && <NewKeyForm given={given} errors={errors} />}
        {!mayChange && <p class="quiet">Only an admin of your account creates and revokes keys.</p>}
      </Layout>,
    );
  }

  app.get(PATH, (c) => page(c));

  app.post(PATH, adminOnly, async (c) => {
    const { accountId } = c.get('user').principal;
    const given = await formFields(c);
    const { name = '', role = '' } = given;
    const errors = await fieldErrors(async () => {
      const { key } = await createKey(rules, { accountId, name, role }, askerOf(c));
      showOnce(c, { kind: 'api-key', value: key, page: PATH });
    });
    if (!errors) return c.redirect(PATH, 303);
    c.status(422);
    return page(c, given, errors);
  });

  app.get(`${PATH}/:id/revoke`, adminOnly, async (c) => {
    const key = await findKey(reads, c.get('user').principal.accountId, c.req.param('id'));
    if (!key || key.revoked_at !== null) return c.notFound();
    return c.render(<Revoke apiKey={key} />);
  });

  app.post(`${PATH}/:id/revoke`, adminOnly, async (c) => {
    const key = await findKey(reads, c.get('user').principal.accountId, c.req.param('id'));
    if (!key) return c.notFound();
    await revokeKey(rules, key.id, askerOf(c));
    return c.redirect(`${PATH}?done=revoked`, 303);
  });
}

const NoApi = ({ plan }: { plan: string }) => (
  <>
    <h2>No API on this plan</h2>
    <p>
      API keys are for programs that call berth's API, which is part of the Pro and Business plans. Your account is on
      the {plan} plan: manage your directories on these pages, or ask whoever runs this berth to change the plan.
    </p>
  </>
);

const Revoke = ({ apiKey: { name, last_used_at } }: { apiKey: ApiKey }) => (
  <Layout title="Revoke an API key">
    <p>
      Programs that use <Text of={name} /> are refused from their next request on. A revoked key never works again.
    </p>
    <p>
      Last used: <Time at={last_used_at} />
    </p>
    <Form>
      <button class="danger">Revoke</button> <a href={PATH}>Keep it</a>
    </Form>
  </Layout>
);
