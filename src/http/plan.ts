/** The plans that may use the API (specification, "Authentication" 6). */
import type { Principal } from '../accounts/authenticate.ts';
import { allowsApi } from '../accounts/plans.ts';
import { BerthError } from '../errors.ts';

/** @throws {BerthError} `plan_required` when the account's plan does not include the API. */
export function requireApiPlan(principal: Principal): void {
  if (allowsApi(principal.plan)) return;
  throw new BerthError(
    'plan_required',
    'API access requires a Pro or Business plan. Change the plan of the account to use it.',
  );
}
