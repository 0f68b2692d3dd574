/**
 * Signs in with the company's login, which provides a person's identity and role.
 *
 * Promises: nobody takes over a user of another account, or the user of another person. A disabled user stays out.
 */
import * as openid from 'openid-client';
import type { Transaction } from 'kysely';
import { lockedAccount } from '../accounts/accounts.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { CompanyLogin } from '../../foundation/base/company-login-settings.ts';
import type { Store } from '../../foundation/context.ts';
import type { Role, Tables } from '../../foundation/db/schema.ts';
import type { Actor } from '../accounts/actor.ts';
import { insertAccountAudit } from '../history/audit.ts';
import { endUserSessions, userKeyId, type Visit } from './sessions.ts';
import { enter, type Entered } from './sign-in.ts';
import { foldedEmail, insertUser } from './users.ts';
import { errorMessage } from '../../foundation/base/errors.ts';

interface Person {
  /** `<issuer> <subject>`. */
  readonly subject: string;
  /** In lower case. */
  readonly email: string;
  readonly accountId: string;
  readonly role: Role;
}

/** Why a person may not sign in. */
export interface Refusal {
  readonly reason:
    | 'no-email'
    | 'wrong-email'
    | 'unconfirmed-email'
    | 'no-claim'
    | 'no-mapped-value'
    | 'no-account'
    | 'disabled'
    | 'other-account'
    | 'other-person';
  /** The person's email in lower case; empty if there is none. */
  readonly email: string;
  /** The claim that does not fit. */
  readonly claim: string;
  /** Its value; undefined if the provider sent none. */
  readonly value: unknown;
  readonly note?: string;
}

type Request = Pick<Actor, 'requestId' | 'route'>;

/**
 * The first time, takes the account's user with that email, or creates one. Every time after that, updates the user's role,
 * and the email if no other user has it.
 */
export async function enterByCompanyLogin(
  { database, clock }: Store,
  { claims, settings }: { readonly claims: Claims; readonly settings: CompanyLogin },
  { visit, ...request }: { readonly visit: Visit } & Request,
): Promise<Entered | Refusal> {
  const now = clock.now();
  const person = personOf(claims, settings);
  if ('reason' in person) return person;
  const { email } = person;
  return database.db.transaction().execute(async (tx) => {
    const user = await userOf(tx, person, { now, ...request });
    if (typeof user === 'object') return enter(tx, user.id, { now, visit });
    const claim = user === 'other-person' ? 'email' : settings.claim;
    return { reason: user, email, claim, value: claims[claim] };
  });
}

/** The email must be confirmed or of a trusted domain. The first entry of the map with one of the person's values decides. */
function personOf(claims: Claims, settings: CompanyLogin): Person | Refusal {
  const { issuer, claim, map } = settings;
  const { sub, email } = claims;
  const folded = typeof email === 'string' ? foldedEmail(email) : undefined;
  const refusal = (reason: Refusal['reason'], name: string): Refusal => {
    return { reason, email: folded ?? '', claim: name, value: claims[name] };
  };
  if (email === undefined) return refusal('no-email', 'email');
  if (folded === undefined) return refusal('wrong-email', 'email');
  if (!isConfirmed(claims, settings)) return refusal('unconfirmed-email', 'email_verified');
  const values: unknown[] = [claims[claim] ?? []].flat();
  const place = map.find(({ value }) => values.includes(value));
  if (place) return { subject: `${issuer} ${sub}`, email: folded, accountId: place.accountId, role: place.role };
  if (values.length > 0) return refusal('no-mapped-value', claim);
  return { ...refusal('no-claim', claim), ...(isElsewhere(claims, claim) && { note: ELSEWHERE }) };
}

/** Cognito sends text (its "UserInfo endpoint"). Entra ID never says it. */
function isConfirmed(claims: Claims, settings: CompanyLogin): boolean {
  const { email, email_verified: isVerified } = claims;
  if (isVerified === undefined) return isTrusted(email, settings);
  return isVerified === true || isVerified === 'true';
}

const ELSEWHERE =
  'the provider refers to another server for this claim, as Entra ID does for people with more than 200 groups';

/** Whether the claim is a distributed one (OpenID Connect Core 1.0, section 5.6.2), which berth does not fetch. */
function isElsewhere({ _claim_names: names }: Claims, claim: string): boolean {
  return typeof names === 'object' && names !== null && claim in names;
}

async function userOf(
  tx: Transaction<Tables>,
  { subject, email, accountId, role }: Person,
  { now, ...request }: { readonly now: Micros } & Request,
): Promise<{ id: string } | 'no-account' | 'other-account' | 'other-person' | 'disabled'> {
  if (!(await lockedAccount(tx, accountId))) return 'no-account';
  const users = tx.selectFrom('users').select(['id', 'account_id', 'email', 'role', 'oidc_subject', 'disabled_at']);
  const known = await users.where('oidc_subject', '=', subject).executeTakeFirst();
  const namesake = await users
    .where('email', '=', email)
    .where('account_id', '=', known?.account_id ?? accountId)
    .executeTakeFirst();
  const user = known ?? namesake;
  const target = { accountId, actor: { keyId: userKeyId(user?.email ?? email), ...request } };
  if (!user) {
    return insertUser(tx, target, { email, role, oidcSubject: subject }, now);
  }
  if (user.account_id !== accountId) return 'other-account';
  if (user.oidc_subject !== null && user !== known) return 'other-person';
  if (user.disabled_at !== null) return 'disabled';
  const after = { email: namesake ? user.email : email, role, oidc_subject: subject };
  if (after.email !== user.email || role !== user.role || user !== known) {
    await tx.updateTable('users').set(after).where('id', '=', user.id).execute();
    await endUserSessions(tx, user.id);
    const details = {
      email: { from: user.email, to: after.email },
      role: { from: user.role, to: role },
      ...(user !== known && { company_login: { from: null, to: 'set' } }),
    };
    await insertAccountAudit(tx, target, { at: now, action: 'update-user', details });
  }
  return user;
}

// The company's OpenID provider: the code flow with PKCE, state and nonce (OpenID Connect Core 1.0, section 3.1).
// Promise: berth calls the provider only when somebody signs in, and waits at most 5 s for each answer, so that a
// provider that is down or hangs holds up nothing else.

const TIMEOUT_SECONDS = 5;
/** How long the provider's metadata is cached. */
const METADATA_TTL_MS = 3_600_000;

/** The values that the browser has to bring back, kept in its cookie. */
export interface Begun {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string };

export interface OpenIdProvider {
  /** Where the browser goes to sign in. */
  begin(redirectUri: string): Promise<Begun & { url: string }>;
  /**
   * The identity in the answer that the browser brings back.
   * @throws {Error} when the answer does not match what was begun, or the provider does not answer.
   */
  finish(answer: URL, begun: Begun): Promise<Claims>;
}

/** Whether an address that the provider does not say it has confirmed counts as its user's. */
function isTrusted(email: unknown, { trustedDomains }: Pick<CompanyLogin, 'trustedDomains'>): boolean {
  return typeof email === 'string' && trustedDomains.includes(email.slice(email.lastIndexOf('@') + 1).toLowerCase());
}

/** What a failure is about, without the response, which may hold tokens. */
export interface ProviderFailure {
  readonly reason: string;
  /** The provider's own code and words (RFC 6749, sections 4.1.2.1 and 5.2). */
  readonly error?: string | undefined;
  readonly error_description?: string | undefined;
  /** The claim of the ID token that does not fit. */
  readonly claim?: string;
  readonly value?: unknown;
  readonly expected?: unknown;
}

/** @param thrown by a method of `OpenIdProvider`. */
export function describeFailure(thrown: unknown): ProviderFailure {
  const cause: unknown = thrown instanceof Error ? thrown.cause : undefined;
  const reason = errorMessage(thrown) + (cause instanceof Error ? `: ${cause.message}` : '');
  if (thrown instanceof openid.AuthorizationResponseError || thrown instanceof openid.ResponseBodyError) {
    return { reason, error: thrown.error, error_description: thrown.error_description };
  }
  if (thrown instanceof openid.WWWAuthenticateChallengeError) {
    const { error, error_description } = thrown.cause[0]?.parameters ?? {};
    return { reason, error, error_description };
  }
  if (typeof cause !== 'object' || cause === null || !('claim' in cause) || !('claims' in cause)) return { reason };
  const { claim, claims } = cause as { claim: string; claims: Record<string, unknown> };
  return { reason, claim, value: claims[claim], ...('expected' in cause && { expected: cause.expected }) };
}

export function openIdProvider(settings: CompanyLogin): OpenIdProvider {
  const { issuer, clientId, clientSecret, scope, claim } = settings;
  let known: { readonly provider: Promise<openid.Configuration>; readonly at: number } | undefined;

  function find(): Promise<openid.Configuration> {
    const now = performance.now();
    if (known && now - known.at < METADATA_TTL_MS) return known.provider;
    const server = new URL(issuer);
    // The settings allow plain HTTP on this machine only.
    const execute = [
      // Checks the ID token's signature too. Otherwise only TLS would vouch for it.
      openid.enableNonRepudiationChecks,
      ...(server.protocol === 'http:' ? [openid.allowInsecureRequests] : []),
    ];
    const options = { timeout: TIMEOUT_SECONDS, execute };
    const provider = openid.discovery(server, clientId, undefined, authentication(clientSecret), options);
    known = { provider, at: now };
    provider.catch(() => (known = undefined));
    return provider;
  }

  return {
    async begin(redirectUri) {
      const provider = await find();
      const state = openid.randomState();
      const nonce = openid.randomNonce();
      const verifier = openid.randomPKCECodeVerifier();
      const url = openid.buildAuthorizationUrl(provider, {
        redirect_uri: redirectUri,
        scope,
        state,
        nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      });
      return { url: url.href, state, nonce, verifier };
    },
    async finish(answer, { state, nonce, verifier }) {
      const provider = await find();
      const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier };
      const tokens = await openid.authorizationCodeGrant(provider, answer, checks);
      const claims = tokens.claims();
      if (!claims) throw new Error('there is no ID token');
      const saysConfirmed = 'email_verified' in claims || isTrusted(claims['email'], settings);
      const isComplete = claim in claims && 'email' in claims && saysConfirmed;
      if (isComplete || provider.serverMetadata().userinfo_endpoint === undefined) return claims;
      return joined(await openid.fetchUserInfo(provider, tokens.access_token, claims.sub), claims);
    },
  };
}

/** The claims of the ID token, then those of the endpoint. The email's confirmation is taken from where the email is. */
function joined(info: Claims, token: Claims): Claims {
  const both = { ...info, ...token };
  if (emailOf(info) === emailOf(token)) return both;
  const { email_verified } = 'email' in token ? token : info;
  return { ...both, email_verified };
}

function emailOf({ email }: Claims): string | undefined {
  return typeof email === 'string' ? foldedEmail(email) : undefined;
}

/** Client authentication by header, which every provider accepts by default (RFC 6749, section 2.3.1). */
function authentication(secret: string): openid.ClientAuth {
  const basic = openid.ClientSecretBasic(secret);
  const post = openid.ClientSecretPost(secret);
  return (server, ...others) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    return (methods.includes('client_secret_basic') ? basic : post)(server, ...others);
  };
}
