/** Makes the API: for clients with a key, whose requests `ports.ts` receives, and for operators on a socket of their own. */
import type { Background } from '../../foundation/base/background.ts';
import { apiOrigin, type Config } from '../../foundation/base/config.ts';
import { operatorSocket } from '../../foundation/base/operator-socket.ts';
import { createAuthenticate } from '../../rules/keys/authenticate.ts';
import { USED_API_KEYS } from '../../rules/keys/api-keys.ts';
import { createLastUsed } from '../../rules/keys/last-used.ts';
import { linkUses } from '../../arrivals/links/use.ts';
import type { Depart } from '../../operating/nodes/move/departure.ts';
import { type AnsweredRequest, observed } from '../web/observe.ts';
import { createAccountLimit } from '../web/rate-limits.ts';
import type { Web } from '../web/start.ts';
import { turns } from '../web/turns.ts';
import { byApiKey } from './access.ts';
import { type AppOptions, createApp } from './app.ts';
import { linkPages } from './link-page.ts';
import { byOperator, serveOperators, withMoves } from './operators.ts';
import type { HttpServerOptions } from './server.ts';

export interface ApiOptions
  extends
    Omit<AppOptions, 'identify' | 'isOfOperators' | 'links' | 'listTurn'>,
    Pick<Web, 'addressLimit' | 'clientAddress' | 'nameRequest'> {
  readonly config: Pick<Config, 'api' | 'apiUrl' | 'environment' | 'rateLimit' | 'runtimeDir' | 'tls'>;
  readonly background: Background;
  /** Makes directories leave for another node; undefined when there is none. */
  readonly depart: Depart | undefined;
  /** Called with each answered request. */
  observe(request: AnsweredRequest): void;
}

export interface Api {
  readonly app: HttpServerOptions['app'];
  /** Call it when no more requests come. */
  close(): Promise<void>;
}

export async function startApi({ config, background, depart, observe, ...options }: ApiOptions): Promise<Api> {
  const { clientAddress, addressLimit, nameRequest, log } = options;
  const { database, clock } = options.rules;
  const { environment, rateLimit: limit } = config;
  const lastUsed = createLastUsed({ database, clock, background, of: USED_API_KEYS });
  const rateLimit = createAccountLimit({ database, clock, background, limit });
  const shared = {
    ...options,
    links: { origin: apiOrigin(config), uses: linkUses({ database, clock }), pages: linkPages(), clientAddress },
    listTurn: turns({ atOnce: 1 }),
  };
  const authenticate = createAuthenticate(database.reads, environment, clock);
  const identify = byApiKey({ authenticate, lastUsed, rateLimit, addressLimit, clientAddress });
  const ofOperators = createApp({ ...shared, identify: byOperator(database.reads), isOfOperators: true });
  const operators = await serveOperators(operatorSocket(config), {
    app: observed(depart ? withMoves(ofOperators, depart, log) : ofOperators, { log, observe }),
    nameRequest,
    log,
  });
  return {
    app: observed(createApp({ ...shared, identify }), { log, observe }),
    async close() {
      await operators.close();
      await rateLimit.close();
      await lastUsed.close();
    },
  };
}
