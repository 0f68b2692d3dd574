/** API keys: all of the account, a new one that is shown once, and revoking one after a question. */
import type { Hono } from 'hono';
import { createKey, findKey, newestKeys, revokeKey } from '../../accounts/api-keys.ts';
import type { Environment } from '../../accounts/key-format.ts';
import { allowsApi } from '../../accounts/plans.ts';
import type { Clock } from '../../clock.ts';
import type { Database } from '../../db/open.ts';
import type { FieldErrors } from '../../errors.ts';
import { Field, Form, Select } from '../components/form.tsx';
import { KeyTable } from '../components/key-table.tsx';
import { Layout } from '../components/layout.tsx';
import { Pager } from '../components/pager.tsx';
import { Secret } from '../components/secret.tsx';
import { Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Copyable, Time } from '../components/values.tsx';
import { askerOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { fieldErrors, type FormFields, formFields, noticeOf } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { showOnce, takeShownOnce } from '../shown-once.ts';

const PAGE = 50;
const PATH = '/dashboard/api-keys';
const REVOKE = `${PATH}/:id/revoke`;
const ROLES = { member: 'Member: everything but how one logs in to a directory', admin: 'Admin: everything' };

export interface ApiKeysDependencies {
  readonly database: Database;
  readonly clock: Clock;
  readonly environment: Environment;
  /** Host and port of the API; undefined where it is the dashboard's own. */
  readonly apiHost: string | undefined;
}

const DONE = { revoked: 'The key is revoked.' };

export function apiKeysPage(app: Hono<DashboardEnv>, { apiHost, ...rules }: ApiKeysDependencies): void {
  const { reads } = rules.database;
  const keyOf = (c: PageContext, id = '') => findKey(reads, c.get('user').principal.accountId, id);

  async function page(c: PageContext, given: FormFields = {}, errors?: FieldErrors) {
    const { accountId, plan, role } = c.get('user').principal;
    const after = await keyOf(c, c.req.query('after'));
    const found = await newestKeys(reads, accountId, { after, limit: PAGE + 1 });
    const [keys, isMore] = [found.slice(0, PAGE), found.length > PAGE];
    const made = takeShownOnce(c);
    const isAdmin = role === 'admin';
    if (errors) c.status(422);
    return c.render(
      <Layout title="API keys" notice={noticeOf(c, DONE)} problem={errors?.['role'] && 'Choose one of the roles.'}>
        {made && (
          <Secret secret={made} label="Your new API key">
            <Copyable text={command(made.value, apiHost ?? c.req.header('host') ?? '')} label="command" />
          </Secret>
        )}
        <KeyTable keys={keys} mayRevoke={isAdmin} />
        <Pager of="keys" next={isMore ? `${PATH}?after=${keys.at(-1)?.id}` : undefined} />
        {!allowsApi(plan) && <NoApi plan={plan} />}
        {allowsApi(plan) && isAdmin && <NewKey given={given} errors={errors} />}
        {!isAdmin && <p class="quiet">Only an admin of your account creates and revokes keys.</p>}
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
    return errors ? page(c, given, errors) : c.redirect(PATH, 303);
  });

  app.get(REVOKE, adminOnly, async (c) => {
    const key = await keyOf(c, c.req.param('id'));
    if (!key || key.revoked_at !== null) return c.notFound();
    return c.render(
      <Layout title="Revoke an API key">
        <p>
          Programs that use <Text of={key.name} /> are refused from their next request on. A revoked key never works
          again. Last used: <Time at={key.last_used_at} />
        </p>
        <Form>
          <button class="danger">Revoke</button> <a href={PATH}>Keep it</a>
        </Form>
      </Layout>,
    );
  });

  app.post(REVOKE, adminOnly, async (c) => {
    const key = await keyOf(c, c.req.param('id'));
    if (!key) return c.notFound();
    await revokeKey(rules, key.id, askerOf(c));
    return c.redirect(`${PATH}?done=revoked`, 303);
  });
}

function command(key: string, host: string): string {
  return `curl -H 'Authorization: Bearer ${key}' https://${host}/api/v1/directories`;
}

const NoApi = ({ plan }: { plan: string }) => (
  <Section
    title="No API on this plan"
    about={`API keys are for programs that call berth's API, which is part of the Pro and Business plans. Your account is on the ${plan} plan: manage your directories on these pages, or ask whoever runs this berth to change the plan.`}
  />
);

const NewKey = ({ given, errors }: { given: FormFields; errors: FieldErrors | undefined }) => (
  <Section title="New key">
    <Form>
      <Field
        label="Name"
        name="name"
        value={given['name']}
        errors={errors}
        hint="What it is for, such as the program that uses it."
        isRequired
      />
      <Select label="Role" name="role" options={ROLES} value={given['role']} />
      <button>Create key</button>
    </Form>
  </Section>
);
