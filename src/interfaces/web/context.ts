/** What the API and the dashboard use. `service.ts` makes it; the tests of the API have one with another machine. */
import type { DirectoryFiles } from '../../arrivals/files/directory-files.ts';
import type { HeldFiles } from '../../arrivals/checks/held.ts';
import type { FileChanges } from '../../arrivals/uploads/file-changes.ts';
import type { UploadList } from '../../arrivals/uploads/upload-list.ts';
import type { Send } from '../../deliveries/webhooks/send.ts';
import type { Ground } from '../../foundation/context.ts';
import type { PublicHostKeys } from '../../machine/sftp/public-host-keys.ts';
import type { Depart } from '../../operating/nodes/move/departure.ts';
import type { LoginLog } from '../../operating/reports/login-log.ts';
import type { LiveSessions } from '../../rules/directories/end-session.ts';
import type { RuleContext } from '../../rules/directories/target.ts';
import { USED_API_KEYS } from '../../rules/api-keys/api-keys.ts';
import { type Authenticate, createAuthenticate } from '../../rules/api-keys/authenticate.ts';
import { createLastUsed, type LastUsed } from '../../rules/api-keys/last-used.ts';
import type { PasswordHashing } from '../../rules/users/passwords.ts';
import { type ClientAddress, clientAddress, fromProxy, proxyAddress } from './client-address.ts';
import { type AnsweredRequest, type NameRequest, requestNames } from './observe.ts';
import { type AccountLimit, createAccountLimit, createAddressLimit, type RateLimit } from './rate-limits.ts';
import { type AwaitSlot, slots } from './concurrency.ts';
import type { MayReach } from './warnings.ts';

export interface AppContext extends RuleContext {
  readonly web: Web;
  readonly hostKeys: () => Promise<PublicHostKeys>;
  readonly sessions: LiveSessions;
  readonly uploads: UploadList;
  readonly files: DirectoryFiles;
  readonly held: HeldFiles;
  readonly changes: FileChanges;
  readonly logins: LoginLog;
  /** Sends one webhook, without the queue. */
  readonly send: Send;
  /** Looks for webhooks that were just enqueued. */
  wake(): void;
  readonly mayReach: MayReach;
  /** Makes directories leave for another node; undefined when there is none. */
  readonly depart: Depart | undefined;
  /** @throws {Error} with the first problem. */
  checkHealth(): Promise<void>;
  /** Called with each answered request. */
  observe(request: AnsweredRequest): void;
  /** How the passwords of the dashboard's users are kept; tests have one that costs next to nothing. */
  readonly hashing?: PasswordHashing | undefined;
}

/** How many files may be sent to one account at once. Each holds a descriptor until its client has received it. */
const MAX_DOWNLOADS = 16;

/** How many webhooks an account may test at once: each test may take 6 s. */
const MAX_TESTS = 4;

/** Identifies the sender of a request, and limits what each sender may do at once. */
export interface Web {
  readonly clientAddress: ClientAddress;
  readonly nameRequest: NameRequest;
  /** Whether an address belongs to a proxy, which may have all connections. */
  readonly isProxy: (address: string | undefined) => boolean;
  readonly authenticate: Authenticate;
  readonly lastUsed: LastUsed;
  readonly accountLimit: AccountLimit;
  /** Limits requests without a key or a session, by their address. */
  readonly addressLimit: RateLimit;
  readonly listSlot: AwaitSlot;
  readonly fileSlot: AwaitSlot;
  readonly testSlot: AwaitSlot;
  close(): Promise<void>;
}

export function createWeb(ground: Ground): Web {
  const { config, database, clock } = ground;
  const { trustedProxies: proxies, unauthenticatedRateLimit, rateLimit: limit } = config;
  const lastUsed = createLastUsed({ ...ground, of: USED_API_KEYS });
  const accountLimit = createAccountLimit({ ...ground, limit });
  return {
    clientAddress: clientAddress(proxies),
    nameRequest: requestNames(fromProxy(proxies)),
    isProxy: proxyAddress(proxies),
    authenticate: createAuthenticate(database.reads, config.environment, clock),
    lastUsed,
    accountLimit,
    addressLimit: createAddressLimit({ limit: unauthenticatedRateLimit, clock: () => performance.now() }),
    listSlot: slots({ atOnce: 1 }),
    fileSlot: slots({ atOnce: MAX_DOWNLOADS }),
    testSlot: slots({ atOnce: MAX_TESTS }),
    async close() {
      await accountLimit.close();
      await lastUsed.close();
    },
  };
}
