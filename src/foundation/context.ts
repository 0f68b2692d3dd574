/** What every part of berth uses. It is made once, by `service/service.ts`, and handed down; each layer adds what it has made. */
import { type Background, createBackground } from './base/background.ts';
import type { Clock } from './base/clock.ts';
import type { Config } from './base/config.ts';
import type { Log } from './base/log.ts';
import { type ClockLead, createClockLead } from './db/clock-lead.ts';
import type { Database } from './db/open.ts';

/** What the rules of accounts, keys and users need. Commands have it without a running service. */
export interface Store {
  readonly database: Database;
  readonly clock: Clock;
}

export interface Ground extends Store {
  readonly config: Config;
  readonly clockLead: ClockLead;
  readonly background: Background;
  readonly log: Log;
}

export function createGround(given: Pick<Ground, 'config' | 'database' | 'clock' | 'log'>): Ground {
  return { ...given, background: createBackground(given.log), clockLead: createClockLead(given) };
}
