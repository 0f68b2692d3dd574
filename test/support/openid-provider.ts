/** A real OpenID provider on this machine, at which everybody is signed in as whom the test says, without being asked. */
import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { interactionPolicy, Provider } from 'oidc-provider';

export interface Person {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean | string;
  readonly [claim: string]: unknown;
}

/** Claims beside the email's, as they are called at Keycloak and Okta, Entra ID, Google, Cognito and Auth0. */
const OTHER_CLAIMS = ['groups', 'roles', '_claim_names', 'hd', 'cognito:groups', 'https://example.com/groups'];

export interface TestProvider extends AsyncDisposable {
  readonly issuer: string;
  /** Accepts requests from now on, from the client whose answers go to that address. */
  open(redirectUri: string): void;
  /** The person who signs in from now on, as the userinfo endpoint describes them. */
  person: Person;
  /** What the ID token says about them, besides `sub`. */
  idToken: Readonly<Record<string, unknown>>;
  /** What it does with a request before it looks at it: nothing, or never answering at all. */
  hangs: (path: string) => boolean;
  /** Whether its ID tokens are signed with an unknown key. */
  forges: boolean;
  /** The address to which it sends the browser back that was sent to `url`. */
  visit(url: string): Promise<string>;
}

export const CLIENT = {
  BERTH_OIDC_CLIENT_ID: 'berth',
  BERTH_OIDC_CLIENT_SECRET: 'a secret of the client: +/&',
} as const;

export async function openIdProvider(): Promise<TestProvider> {
  let listener: RequestListener = (_request, response) => void response.writeHead(503).end();
  const server = createServer((request, response) => {
    if (place.forges && request.url === '/token') forge(response);
    if (!place.hangs(request.url ?? '')) listener(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const place: TestProvider = {
    issuer,
    person: { sub: 'nobody' },
    idToken: {},
    hangs: () => false,
    forges: false,
    open: (redirectUri) => (listener = providerOf(issuer, redirectUri, place)),
    async visit(url) {
      const jar = new Map<string, string>();
      let at = url;
      for (let steps = 0; at.startsWith(issuer); steps += 1) {
        const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
        const answer = await fetch(at, { redirect: 'manual', headers: { cookie } });
        for (const line of answer.headers.getSetCookie()) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
          jar.set(name, value);
        }
        const location = answer.headers.get('location');
        if (location === null || steps > 10) throw new Error(`${at}: ${answer.status} ${await answer.text()}`);
        at = new URL(location, at).href;
      }
      return at;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return place;
}

/** Reverses the signature of the ID token in the answer. */
function forge(response: ServerResponse): void {
  const end = response.end.bind(response) as (text: string) => ServerResponse;
  response.end = (body: unknown) =>
    end(
      String(body).replace(/("id_token":"[^"]*\.)([\w-]+)"/, (_, start: string, signature: string) => {
        return `${start}${Array.from(signature).toReversed().join('')}"`;
      }),
    );
}

function providerOf(issuer: string, redirectUri: string, place: TestProvider): RequestListener {
  const policy = interactionPolicy.base();
  policy.remove('consent');
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.BERTH_OIDC_CLIENT_ID,
        client_secret: CLIENT.BERTH_OIDC_CLIENT_SECRET,
        redirect_uris: [redirectUri],
      },
    ],
    claims: { openid: ['sub', ...OTHER_CLAIMS], email: ['email', 'email_verified'] },
    scopes: ['openid', 'email', 'groups'],
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    cookies: { keys: ['a key'] },
    features: { devInteractions: { enabled: false } },
    interactions: { policy, url: (_context, { uid }) => `/interaction/${uid}` },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: (use) => ({ ...(use === 'userinfo' ? place.person : place.idToken), sub: place.person.sub }),
    }),
    async loadExistingGrant(context) {
      const { client, session } = context.oidc;
      const grant = new context.oidc.provider.Grant({
        clientId: client?.clientId ?? '',
        accountId: session?.accountId ?? '',
      });
      grant.addOIDCScope('openid email groups');
      await grant.save();
      return grant;
    },
  });
  const answer = provider.callback();
  return (request, response) => {
    if (!request.url?.startsWith('/interaction/')) return void answer(request, response);
    void provider.interactionFinished(request, response, { login: { accountId: place.person.sub } });
  };
}
