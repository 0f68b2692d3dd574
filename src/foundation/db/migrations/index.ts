/**
 * The migrations in order. They only go forward: a released migration is never edited; a later one corrects it. Their names are in
 * every database, so they stay too. Numbers that are missing were never used.
 */
import type { Migration } from 'kysely/migration';
import * as m001 from './001-initial.ts';
import * as m002 from './002-history.ts';
import * as m003 from './003-clock.ts';
import * as m004 from './004-api.ts';
import * as m005 from './005-dashboard.ts';
import * as m006 from './006-nodes.ts';
import * as m007 from './007-quotas-of-nodes.ts';
import * as m009 from './009-security.ts';
import * as m010 from './010-api.ts';
import * as m012 from './012-dashboard.ts';
import * as m013 from './013-checks.ts';
import * as m014 from './014-links.ts';
import * as m016 from './016-api2.ts';
import * as m019 from './019-events.ts';
import * as m020 from './020-links.ts';
import * as m021 from './021-tests.ts';
import * as m022 from './022-links.ts';
import * as m023 from './023-ctime.ts';
import * as m024 from './024-check-failures.ts';
import * as m025 from './025-link-parts.ts';
import * as m026 from './026-failed-events.ts';
import * as m027 from './027-open-deliveries.ts';
import * as m028 from './028-removed-files.ts';
import * as m029 from './029-daily-totals.ts';
import * as m030 from './030-settling.ts';
import * as m032 from './032-account-history.ts';
import * as m033 from './033-user-limits.ts';
import * as m034 from './034-password-links.ts';

export const migrations: Record<string, Migration> = {
  '001-initial': m001,
  '002-history': m002,
  '003-clock': m003,
  '004-api': m004,
  '005-dashboard': m005,
  '006-nodes': m006,
  '007-quotas-of-nodes': m007,
  '009-security': m009,
  '010-api': m010,
  '012-dashboard': m012,
  '013-checks': m013,
  '014-links': m014,
  '016-api2': m016,
  '019-events': m019,
  '020-links': m020,
  '021-tests': m021,
  '022-links': m022,
  '023-ctime': m023,
  '024-check-failures': m024,
  '025-link-parts': m025,
  '026-failed-events': m026,
  '027-open-deliveries': m027,
  '028-removed-files': m028,
  '029-daily-totals': m029,
  '030-settling': m030,
  '032-account-history': m032,
  '033-user-limits': m033,
  '034-password-links': m034,
};
