/** What needs the account admin role (specification, "Authentication" 7). */
import type { Principal } from '../accounts/authenticate.ts';
import { BerthError } from '../errors.ts';

/** @throws {BerthError} `not_authorized` unless the key has the role. */
export function requireAdmin(principal: Principal): void {
  if (principal.role !== 'admin') throw new BerthError('not_authorized', 'Not authorized');
}
