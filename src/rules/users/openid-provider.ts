/**
 * The company's OpenID provider: the code flow with PKCE, state and nonce (OpenID Connect Core 1.0, section 3.1).
 *
 * Promise: berth calls the provider only when somebody signs in, and waits at most 5 s for each answer, so that a provider
 * that is down or hangs holds up nothing else.
 */
import * as openid from 'openid-client';
import type { CompanyLogin } from '../../foundation/base/company-login-settings.ts';
import { errorMessage } from '../../foundation/base/errors.ts';
import { foldedEmail } from './users.ts';

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
export function isTrusted(email: unknown, { trustedDomains }: Pick<CompanyLogin, 'trustedDomains'>): boolean {
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
      const isConfirmed = 'email_verified' in claims || isTrusted(claims['email'], settings);
      const isComplete = claim in claims && 'email' in claims && isConfirmed;
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
