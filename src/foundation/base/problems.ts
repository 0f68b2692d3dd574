/**
 * What can be wrong with a field: a code and its values. The rules report these. The API shows the messages below, which are
 * Ecto's (validate_required, validate_length, validate_number, cast), since the specification's `can't be blank` is one of them.
 * The dashboard has sentences of its own by code (`interfaces/dashboard/words.ts`).
 */

const MESSAGES = {
  blank: () => "can't be blank",
  invalid: () => 'is invalid',
  unknown: () => 'is unknown',
  too_short: (least: number) => `should be at least ${least} character(s)`,
  too_long: (most: number, unit: 'character' | 'byte') => `should be at most ${most} ${unit}(s)`,
  too_few: (least: number) => `should have at least ${least} item(s)`,
  too_many: (most: number, unit: 'item' | 'folder') => `should have at most ${most} ${unit}(s)`,
  too_small: (min: number) => `must be greater than or equal to ${min}`,
  too_large: (max: number) => `must be less than or equal to ${max}`,
  not_a_time: () => 'is invalid: write a time with its zone, such as 2026-11-22T09:30:00Z',
  /** In a query, a plus that is not encoded arrives as a blank. */
  blank_for_plus: () =>
    'is invalid: in a URL write the + of its zone as %2B, or the time in UTC, such as 2026-11-22T09:30:00Z',
  past: () => 'must be in the future',
  too_late: (days: number) => `must be within ${days} days`,
  later_than_key: () => 'must not be after the API key expires',
  taken: () => 'has already been taken',
  common: () => 'is one of the most common ones: take another',
  is_email: () => 'is your email: take another',
  wrong: () => 'is wrong',
  wrong_code: () => 'is wrong, or was used already',
  too_often: (minutes: number) => `was wrong too often: try again in ${minutes} min`,
  not_a_directory: (name: string) => `${name} is not a directory of the account`,
  not_a_network: (text: string) => `${text} is invalid`,
  host_bits: (text: string, network: string) => `${text} has host bits set: its network is ${network}`,
  /** @param reason without the text, which may be a secret. */
  not_a_public_key: (reason: string) => `is not a valid OpenSSH public key: ${reason}`,
  short_key: (bits: number, least: number) => `is an RSA key of ${bits} bits, and should have at least ${least}`,
  weak_exponent: () => 'is an RSA key whose exponent protects nothing',
  no_scheme: () => 'must start with https:// or http://',
  no_webhook: () => 'is not set: give the directory or the account a webhook URL first',
  no_own_webhook: () => "is not set: give the directory a webhook URL, or let it use the account's again",
  no_directory: () => 'has no directory',
  not_printable: () => 'must be printable ASCII without blanks',
  in_use: () => 'is in use already',
  nothing_prepared: () => 'has nothing to activate: ask for a new secret first',
  pending: () => 'is still pending',
  uploads_only: () => 'is for upload links only',
  no_event: () => 'is the number of no event yet',
  other_request: () => 'was used for another request',
  long_name: (most: number) => `should have names of at most ${most} byte(s)`,
  not_states: (states: string) => `should be ${states} or several of these, such as uploaded,partial`,
  not_ids: (most: number) => `should be 1 to ${most} ids of uploads, separated by commas`,
  /** A page reports it about its own form, which no rule reads. The text is a sentence, and is shown as it is. */
  sentence: (text: string) => text,
};

/** The values of each problem, by its code. */
type Values = { readonly [Code in keyof typeof MESSAGES]: Parameters<(typeof MESSAGES)[Code]> };

/** A code, followed by its values. */
export type FieldProblem = { readonly [Code in keyof Values]: readonly [Code, ...Values[Code]] }[keyof Values];

/** A text for each problem, or for some. */
export type Texts = { readonly [Code in keyof Values]: (...values: Values[Code]) => string };

/** The problem in the API's words. */
export function messageOf(problem: FieldProblem): string {
  return textOf(MESSAGES, problem) ?? '';
}

/** The text for a problem; undefined where `texts` has none. */
export function textOf(texts: Partial<Texts>, [code, ...values]: FieldProblem): string | undefined {
  return (texts[code] as ((...values: readonly unknown[]) => string) | undefined)?.(...values);
}
