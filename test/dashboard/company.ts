/** A berth with a company login at a real OpenID provider, and a person who uses it. */
import assert from 'node:assert/strict';
import type { Log } from '../../src/foundation/base/log.ts';
import { startBerth, type TestBerth } from '../support/berth.ts';
import { visitorOf } from '../support/dashboard.ts';
import { CLIENT, openIdProvider, type Person, type TestProvider } from '../support/openid-provider.ts';
import { scratch } from '../support/scratch.ts';
import { onDatabase } from '../support/users.ts';

export const LOGIN = '/dashboard/oidc';
export const COMPANY = '00000000-0000-4000-8000-000000000001';
export const OTHER = '00000000-0000-4000-8000-000000000002';
export const ADMINS = 'CN=berth admins,OU=groups';

export interface Company extends AsyncDisposable {
  readonly berth: TestBerth;
  readonly provider: TestProvider;
  readonly place: { config: TestBerth['config']; port: number };
}

/** A berth with a company login that recognizes the account's admins and members by their groups. */
export async function company(settings: Record<string, string> = {}, options: { log?: Log } = {}): Promise<Company> {
  await using parts = new AsyncDisposableStack();
  const provider = parts.use(await openIdProvider());
  const files = parts.use(
    scratch({
      BERTH_DASHBOARD: 'on',
      BERTH_OIDC_ISSUER: provider.issuer,
      ...CLIENT,
      BERTH_OIDC_SCOPE: 'openid email groups',
      BERTH_OIDC_MAP: `${ADMINS}=${COMPANY}:admin, staff=${COMPANY}:member, others=${OTHER}:member`,
      ...settings,
    }),
  );
  const berth = parts.use(await startBerth(files, options));
  await onDatabase(berth, async ({ db }) => {
    const row = { inserted_at: 1, plan: 'pro', deleted_at: null, deleted_by: null } as const;
    await db
      .insertInto('accounts')
      .values([
        { ...row, id: COMPANY, name: 'Company' },
        { ...row, id: OTHER, name: 'Other' },
      ])
      .execute();
  });
  const place = { config: berth.config, port: berth.service().dashboardPort ?? 0 };
  provider.open(`https://127.0.0.1:${place.port}${LOGIN}/callback`);
  const owned = parts.move();
  return { berth, provider, place, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export const ALICE: Person = {
  sub: 'alice',
  email: 'Alice@example.com',
  email_verified: true,
  groups: ['x', ADMINS, 'staff'],
};

/** Goes to the provider and back; `change` is what happens to the address on the way there. */
export async function come(
  { provider, place }: Company,
  person: Person,
  { visitor = visitorOf(place), next = '', idToken = {}, change = (url: string) => url } = {},
) {
  provider.person = person;
  provider.idToken = idToken;
  const begun = await visitor.get(`${LOGIN}${next}`);
  assert.equal(begun.status, 303, begun.text);
  const back = new URL(await provider.visit(change(String(begun.headers.location))));
  const path = back.pathname + back.search;
  return { visitor, path, answer: await visitor.get(path) };
}
