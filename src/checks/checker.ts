/** The checker that the settings name. */
import type { CheckBy } from '../base/config.ts';
import { clamdChecker } from './clamd.ts';
import type { Checker } from './exchange.ts';
import { execChecker } from './exec.ts';

export function checkerOf(by: CheckBy): Checker {
  return by.kind === 'clamd' ? clamdChecker(by.place) : execChecker(by.socket);
}
