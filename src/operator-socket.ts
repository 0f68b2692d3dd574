/** Where the commands of root reach the running service, and how they name themselves there. */
import { join } from 'node:path';
import type { Config } from './config.ts';

/** The header with the account for which a command acts. */
export const ACCOUNT = 'berth-account';
/** The header with the login name of whoever runs it. */
export const OPERATOR = 'berth-operator';

export function operatorSocket({ runtimeDir }: Pick<Config, 'runtimeDir'>): string {
  return join(runtimeDir, 'operator.sock');
}
