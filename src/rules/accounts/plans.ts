/** The limits of each plan (specification, "Limits" and "Authentication" 6). */
import type { Plan } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';

export const PLANS = ['free', 'starter', 'pro', 'business'] as const satisfies readonly Plan[];

/** How many directories an account may have at once; undefined means no limit. */
export const DIRECTORY_LIMITS: Readonly<Record<Plan, number | undefined>> = {
  free: 1,
  starter: 5,
  pro: 25,
  business: undefined,
};

export function allowsApi(plan: Plan): boolean {
  return plan === 'pro' || plan === 'business';
}

/** @throws {BerthError} `plan_required` on a plan without the API. */
export function requireApi(plan: Plan): void {
  if (allowsApi(plan)) return;
  throw new BerthError(
    'plan_required',
    'API access requires a Pro or Business plan. Change the plan of the account to use it.',
  );
}
