/** The settings of the company login (docs/operations.md, "Company login"). */
import * as v from 'valibot';

/** An OpenID provider, and which of its users may sign in. */
export interface CompanyLogin {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scope: string;
  /** The claim whose values are mapped. The first entry of `map` that matches one of a user's values decides. */
  readonly claim: string;
  readonly map: readonly { readonly value: string; readonly accountId: string; readonly role: 'admin' | 'member' }[];
  /** Domains, in lower case, whose email addresses the provider need not confirm. */
  readonly trustedDomains: readonly string[];
}

const issuer = v.pipe(
  v.string(),
  v.check(isIssuer, 'must be an https:// address (http:// for one on this machine)'),
  // Anybody can have a tenant, in which any address can be given to a user.
  v.check(
    (text) => !/^https:\/\/login\.microsoftonline\.[^/]+\/(common|organizations|consumers)(\/|$)/i.test(text),
    'must name one tenant, as in https://login.microsoftonline.com/TENANT_ID/v2.0',
  ),
);
const domains = v.pipe(
  v.string(),
  v.transform((text) => text.split(/[\s,]+/).filter(Boolean)),
  v.array(v.pipe(v.string(), v.regex(/^[\w-]+(\.[\w-]+)+$/, 'must be domains such as example.com'), v.toLowerCase())),
);
const claimMap = v.pipe(
  v.string(),
  v.transform(parseClaimMap),
  v.check((entries) => entries.length > 0, 'must be VALUE=ACCOUNT_ID:admin or :member, with commas between several'),
);

export const OIDC_SETTINGS = {
  BERTH_OIDC_ISSUER: v.optional(issuer),
  BERTH_OIDC_CLIENT_ID: v.optional(v.string()),
  BERTH_OIDC_CLIENT_SECRET: v.optional(v.string()),
  BERTH_OIDC_SCOPE: v.optional(v.string(), 'openid email'),
  BERTH_OIDC_CLAIM: v.optional(v.string(), 'groups'),
  BERTH_OIDC_MAP: v.optional(claimMap),
  BERTH_OIDC_TRUSTED_DOMAINS: v.optional(domains, ''),
};

const Settings = v.object(OIDC_SETTINGS);

/** @returns undefined when none is set. */
export function companyLogin(env: v.InferOutput<typeof Settings>): CompanyLogin | undefined {
  if (env.BERTH_OIDC_ISSUER === undefined) return undefined;
  return {
    issuer: env.BERTH_OIDC_ISSUER,
    clientId: env.BERTH_OIDC_CLIENT_ID ?? '',
    clientSecret: env.BERTH_OIDC_CLIENT_SECRET ?? '',
    scope: env.BERTH_OIDC_SCOPE,
    claim: env.BERTH_OIDC_CLAIM,
    map: env.BERTH_OIDC_MAP ?? [],
    trustedDomains: env.BERTH_OIDC_TRUSTED_DOMAINS,
  };
}

function isIssuer(text: string): boolean {
  const url = URL.parse(text);
  if (url?.protocol === 'http:') return ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
  return url?.protocol === 'https:';
}

/** Empty when any part of the text is wrong. Values may hold commas and equals signs, as those of LDAP do. */
function parseClaimMap(text: string): CompanyLogin['map'] {
  const found = [...text.matchAll(/\s*(\S.*?)\s*=\s*([\da-f-]{36}):(admin|member)\s*(?:,|$)/gy)];
  if (found.map(([part]) => part).join('') !== text) return [];
  return found.map(([, value = '', accountId = '', role]) => ({
    value,
    accountId,
    role: role === 'admin' ? 'admin' : 'member',
  }));
}
