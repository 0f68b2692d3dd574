/** Makes what the API and the dashboard share: who sends a request, and how much each sender may have at once. */
import type { Config } from '../../foundation/base/config.ts';
import { type ClientAddress, clientAddress, fromProxy, proxyAddress } from './client-address.ts';
import { type NameRequest, requestNames } from './observe.ts';
import { createAddressLimit, type RateLimit } from './rate-limits.ts';
import { type Turn, turns } from './turns.ts';

/** How many files may be sent to one account at once. Each holds a descriptor until its client has received it. */
const MAX_DOWNLOADS = 16;

/** How many webhooks an account may test at once: each test may take 6 s. */
const MAX_TESTS = 4;

export interface Web {
  readonly clientAddress: ClientAddress;
  /** Limits requests without a key or a session, by their address. */
  readonly addressLimit: RateLimit;
  readonly fileTurn: Turn;
  readonly testTurn: Turn;
  readonly nameRequest: NameRequest;
  /** Whether an address belongs to a proxy, which may have all connections. */
  readonly isProxy: (address: string | undefined) => boolean;
}

export function createWeb(config: Pick<Config, 'trustedProxies' | 'unauthenticatedRateLimit'>): Web {
  const { trustedProxies: proxies, unauthenticatedRateLimit: limit } = config;
  return {
    clientAddress: clientAddress(proxies),
    addressLimit: createAddressLimit({ limit, clock: () => performance.now() }),
    fileTurn: turns({ atOnce: MAX_DOWNLOADS }),
    testTurn: turns({ atOnce: MAX_TESTS }),
    nameRequest: requestNames(fromProxy(proxies)),
    isProxy: proxyAddress(proxies),
  };
}
