/** Where root's commands reach the running service, and how they identify themselves there. */
import { join } from 'node:path';
import type { Config } from './config.ts';

/** The header with the account for which a command acts. */
export const ACCOUNT = 'berth-account';
/** The header with the login name of the person who runs it. */
export const OPERATOR = 'berth-operator';

export function operatorSocket({ runtimeDir }: Pick<Config, 'runtimeDir'>): string {
  return join(runtimeDir, 'operator.sock');
}

/** The login name of the person who runs a command, also behind sudo. */
export function operatorLogin(environment: Readonly<Record<string, string | undefined>>): string {
  return environment['SUDO_USER'] ?? environment['LOGNAME'] ?? environment['USER'] ?? 'root';
}

/** Takes the place of the key's id in the audit and the log. */
export function operatorKeyId(login: string): string {
  return `operator:${/^[\w.@-]{1,64}$/.test(login) ? login : 'root'}`;
}
