/** Signs in with the company's login: redirects to the provider, and handles the return. */
import { randomBytes } from 'node:crypto';
import type { Hono } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { type Clock, type Micros, SECOND } from '../../../foundation/base/clock.ts';
import type { CompanyLogin } from '../../../foundation/base/company-login-settings.ts';
import type { Database } from '../../../foundation/db/open.ts';
import type { Log } from '../../../foundation/base/log.ts';
import {
  type Begun,
  type Claims,
  describeFailure,
  enterByCompanyLogin,
  openIdProvider,
  type ProviderFailure,
  type Refusal,
} from '../../../rules/users/company-login.ts';
import { NarrowLayout } from '../components/layout.tsx';
import type { DashboardEnv, PageContext } from '../environment.ts';
import { seal, unseal } from '../sealed.ts';
import { HOST_COOKIE, nextPage, startSession } from '../session-cookie.ts';

export const COMPANY_LOGIN = '/dashboard/oidc';
const CALLBACK = `${COMPANY_LOGIN}/callback`;

const COOKIE = 'berth-oidc';
/** How long signing in at the provider may take. */
const MAX_AGE_SECONDS = 600;

/** The state that the browser keeps while it is at the provider. */
interface Journey extends Begun {
  readonly next: string;
  readonly until: Micros;
}

const REFUSALS: Readonly<Record<Refusal['reason'], (refusal: Refusal) => string>> = {
  'no-email': () => 'Your company’s login sends no email address for you (claim “email”). Ask its administrator.',
  'wrong-email': ({ value }) =>
    `Your company’s login sends “${String(value)}” as your email address (claim “email”). berth accepts ASCII addresses only. Ask its administrator.`,
  'unconfirmed-email': ({ email, value }) =>
    value === undefined
      ? `Your company’s login does not say whether ${email} is yours (claim “email_verified”), and berth does not trust it for that domain. Ask the operator of this server.`
      : `${email} has not been confirmed in your company’s login (claim “email_verified”). Ask its administrator.`,
  'no-claim': ({ claim }) =>
    `Your company’s login sends nothing in the claim “${claim}” for you, which decides who may use berth. Ask its administrator.`,
  'no-mapped-value': ({ claim }) =>
    `None of your values in the claim “${claim}” gives you access here. Ask your company’s administrator for a group that may use berth.`,
  'no-account': () => 'Your company’s account no longer exists here. Ask the operator of this server.',
  disabled: ({ email }) => `Your user ${email} is disabled. Ask an admin of your account.`,
  'other-account': ({ email, claim }) =>
    `${email} is a user of another account here, which your values in the claim “${claim}” no longer lead to. Ask the operator of this server.`,
  'other-person': ({ email }) =>
    `${email} belongs to another person in your company’s login. Ask an admin of your account to remove that user.`,
};

export function companyLoginPages(
  app: Hono<DashboardEnv>,
  { url, ...settings }: CompanyLogin & { readonly url?: string | undefined },
  { database, clock, log }: { readonly database: Database; readonly clock: Clock; readonly log: Log },
): void {
  const provider = openIdProvider(settings);
  // Sign-ins that are under way at a restart have to begin again.
  const key = randomBytes(32);

  app.get(COMPANY_LOGIN, async (c) => {
    try {
      const { url: there, ...begun } = await provider.begin(callbackOf(c, url).href);
      const journey: Journey = { ...begun, next: nextPage(c), until: clock.now() + MAX_AGE_SECONDS * SECOND };
      setCookie(c, COOKIE, seal(key, JSON.stringify(journey)), { ...HOST_COOKIE, maxAge: MAX_AGE_SECONDS });
      return c.redirect(there, 303);
    } catch (error) {
      noteFailure(c, error);
      return page(c, 503, 'Your company’s login does not answer. Try again soon.');
    }
  });

  app.get(CALLBACK, async (c) => {
    const text = unseal(key, getCookie(c, COOKIE, 'host') ?? '');
    deleteCookie(c, COOKIE, HOST_COOKIE);
    const journey = text === undefined ? undefined : (JSON.parse(text) as Journey);
    if (!journey || journey.until < clock.now())
      return page(
        c,
        400,
        'This sign-in was started in another browser, has expired, or is already complete. Start again.',
      );
    let claims: Claims;
    try {
      claims = await provider.finish(callbackOf(c, url), journey);
    } catch (error) {
      const { error: code, claim } = noteFailure(c, error);
      const what = code ?? claim;
      const why = what === undefined ? '' : ` (“${what}”)`;
      return page(c, 403, `Your company’s login did not confirm who you are${why}. Start again.`);
    }
    const request = { visit: c.get('visit'), requestId: c.env.notes.id, route: `GET ${CALLBACK}` };
    const entered = await enterByCompanyLogin({ database, clock }, { claims, settings }, request);
    if (!('reason' in entered)) return c.redirect(await startSession(c, database, entered, journey.next), 303);
    const mapped = settings.map.map(({ value }) => value);
    log.warn(
      { request_id: c.env.notes.id, subject: claims.sub, ...entered, mapped },
      'a sign-in with the company login was refused',
    );
    return page(c, 403, REFUSALS[entered.reason](entered));
  });

  function noteFailure(c: PageContext, thrown: unknown): ProviderFailure {
    const failure = describeFailure(thrown);
    log.warn({ request_id: c.env.notes.id, ...failure }, 'the company login does not work');
    return failure;
  }
}

/** The URL of this request for the browser: of the configured origin or, without one, of the `Host` header; always https. */
function callbackOf(c: PageContext, configured?: string): URL {
  const url = new URL(CALLBACK, configured ?? `https://${c.req.header('host')}`);
  url.search = c.req.path === CALLBACK ? new URL(c.req.url).search : '';
  return url;
}

function page(c: PageContext, status: 400 | 403 | 503, message: string) {
  c.status(status);
  return c.render(
    <NarrowLayout title="You are not signed in">
      <p>{message}</p>
      <p>
        <a href="/dashboard/sign-in">Go to the sign-in page</a>
      </p>
    </NarrowLayout>,
  );
}
