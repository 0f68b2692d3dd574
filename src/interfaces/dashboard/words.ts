/** The sentences for problems of fields, for people: each makes sense alone. The API's messages are in `problems.ts`. */
import { messageOf, type FieldProblem, textOf, type Texts } from '../../foundation/base/problems.ts';
import type { FormFields } from './environment.ts';

/** The noun for each field's value: `Enter a name.` */
const NOUNS: Readonly<Record<string, string>> = {
  code: 'a code',
  current_password: 'your current password',
  email: 'an email address',
  expires_at: 'a date and time',
  max_bytes: 'a size',
  max_connections: 'the number of connections',
  name: 'a name',
  password: 'a password',
  path: 'the path of the file',
  public_key: 'a public key',
  repeated: 'the password again',
  retention_days: 'the number of days',
  role: 'a role',
  secret: 'a secret',
  url: 'a webhook URL',
  webhook_url: 'a webhook URL',
};

/** Sentences for a problem, by field. */
const SENTENCES: Readonly<Record<string, Partial<Texts>>> = {
  auth_mode: { invalid: () => 'Choose how customers log in.' },
  description: { invalid: () => 'The description contains a character that cannot be stored.' },
  email: {
    taken: () => 'A user with this email address already exists.',
    invalid: () => 'Enter an email address such as dana@example.com.',
  },
  external_id: { invalid: () => 'The external ID contains a character that cannot be stored.' },
  max_bytes: { invalid: () => 'Enter a size such as 500 MB or 2.5 GB.' },
  max_connections: { invalid: () => 'The number of connections must be a whole number.' },
  name: { invalid: () => 'The name contains a character that cannot be stored.' },
  path: { invalid: () => 'Enter the path of a file such as in/report.pdf.' },
  public_key: { taken: () => 'This key has already been added.' },
  retention_days: { invalid: () => 'The number of days must be a whole number.' },
  role: { invalid: () => 'Choose one of the roles.' },
  url: { invalid: () => 'Enter a complete URL such as https://example.com/hooks.' },
  webhook_url: { invalid: () => 'Enter a complete URL such as https://example.com/hooks.' },
};

/** Sentences for a problem of any field. */
const ANYWHERE: Partial<Texts> = {
  common: () => 'This password is too common. Choose another.',
  in_use: () => 'This secret is already in use. Enter another.',
  is_email: () => 'Your email address cannot be your password. Choose another.',
  no_scheme: () => 'Start the URL with https:// or http://.',
  no_webhook: () => 'Enter a webhook URL. The account has none either.',
  not_a_directory: (name) => `${name} is not the SFTP username of one of your directories.`,
  not_a_public_key: (reason) => `This is not an OpenSSH public key: ${reason}.`,
  not_a_time: () => 'Enter a date and time such as 2026-11-20 14:30.',
  not_printable: () => 'Use printable ASCII characters without spaces.',
  past: () => 'Choose a time in the future.',
  sentence: (text) => text,
  too_few: (least) => `Use at least ${grouped(least)} items.`,
  too_late: (days) => `Choose a time within ${days} days.`,
  too_long: (most, unit) => `Use at most ${grouped(most)} ${unit}s.`,
  too_many: (most, unit) => `Use at most ${grouped(most)} ${unit}s.`,
  too_often: (minutes) => `Too many wrong attempts. Try again in ${minutes} min.`,
  too_short: (least) => `Use at least ${grouped(least)} characters.`,
  weak_exponent: () => 'This RSA key is insecure. Generate a new key.',
  wrong: () => 'Your current password is wrong.',
  wrong_code: () => 'The code is wrong or has already been used. Enter a new one.',
};

const grouped = (count: number): string => count.toLocaleString('en');

/** One sentence for each problem of a field. `label` names the field where there is no better text. */
export function sentencesOf(
  field: string,
  problems: readonly FieldProblem[],
  given: FormFields,
  label = field,
): string[] {
  const noun = NOUNS[field];
  const bounded = (range: string): string =>
    noun?.startsWith('the ') ? `T${noun.slice(1)} must be ${range}.` : `Enter ${range}.`;
  const ofLine = (network: string, what: string): string => {
    const lines = (given[field] ?? '').split(/\r?\n/);
    const index = lines.findIndex((each) => splitNetworks(each).includes(network));
    return index === -1 ? 'One line is not an IP address or a CIDR range.' : `Line ${index + 1}: ${what}`;
  };
  const texts: Partial<Texts> = {
    blank: () => `Enter ${noun ?? 'a value'}.`,
    too_small: (min) => bounded(`${grouped(min)} or more`),
    too_large: (max) => bounded(`${grouped(max)} or less`),
    not_a_network: (text) => ofLine(text, `"${text}" is not an IP address or a CIDR range.`),
    host_bits: (text, network) => ofLine(text, `did you mean ${network}?`),
    ...ANYWHERE,
    ...SENTENCES[field],
  };
  return [...new Set(problems.map((problem) => textOf(texts, problem) ?? `${label} ${messageOf(problem)}.`))];
}

/** The networks in a text, separated by lines or commas. */
export function splitNetworks(text: string): string[] {
  return text.split(/[\n\r,]+/).flatMap((part) => part.trim() || []);
}
