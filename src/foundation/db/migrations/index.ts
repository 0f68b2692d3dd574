/** The migrations in order. They only go forward: a released migration is never edited; a later one corrects it. */
import type { Migration } from 'kysely/migration';
import * as initial from './001-initial.ts';
import * as history from './002-history.ts';
import * as clock from './003-clock.ts';
import * as api from './004-api.ts';
import * as dashboard from './005-dashboard.ts';
import * as nodes from './006-nodes.ts';
import * as quotasOfNodes from './007-quotas-of-nodes.ts';
import * as security from './009-security.ts';
import * as events from './010-api.ts';
import * as dashboardPages from './012-dashboard.ts';
import * as checks from './013-checks.ts';
import * as links from './014-links.ts';
import * as moreApi from './016-api2.ts';
import * as wantedEvents from './019-events.ts';
import * as signedLinks from './020-links.ts';
import * as webhookTests from './021-tests.ts';
import * as listedLinks from './022-links.ts';
import * as changeTimes from './023-ctime.ts';
import * as checkFailures from './024-check-failures.ts';
import * as linkParts from './025-link-parts.ts';
import * as failedEvents from './026-failed-events.ts';

export const migrations: Record<string, Migration> = {
  '001-initial': initial,
  '002-history': history,
  '003-clock': clock,
  '004-api': api,
  '005-dashboard': dashboard,
  '006-nodes': nodes,
  '007-quotas-of-nodes': quotasOfNodes,
  '009-security': security,
  '010-api': events,
  '012-dashboard': dashboardPages,
  '013-checks': checks,
  '014-links': links,
  '016-api2': moreApi,
  '019-events': wantedEvents,
  '020-links': signedLinks,
  '021-tests': webhookTests,
  '022-links': listedLinks,
  '023-ctime': changeTimes,
  '024-check-failures': checkFailures,
  '025-link-parts': linkParts,
  '026-failed-events': failedEvents,
};
