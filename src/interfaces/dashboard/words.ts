/**
 * Turns errors of fields into sentences for people, which make sense alone. The rules report errors in Ecto's wording, which is
 * for programs (`validation.ts`).
 */
import { NO_TIME } from '../../foundation/base/validation.ts';
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

const URL_SENTENCES = {
  'is invalid': 'Enter a complete URL such as https://example.com/hooks.',
  'must start with https:// or http://': 'Start the URL with https:// or http://.',
};

/** Sentences for a message of the rules, by field and message. */
const SENTENCES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  auth_mode: { 'is invalid': 'Choose how customers log in.' },
  code: { 'is wrong, or was used already': 'The code is wrong or has already been used. Enter a new one.' },
  current_password: { 'is wrong': 'Your current password is wrong.' },
  description: { 'is invalid': 'The description contains a character that cannot be stored.' },
  email: {
    'has already been taken': 'A user with this email address already exists.',
    'is invalid': 'Enter an email address such as dana@example.com.',
  },
  expires_at: {
    [NO_TIME]: 'Enter a date and time such as 2026-11-20 14:30.',
    'must be in the future': 'Choose a time in the future.',
    'must be within 366 days': 'Choose a time within 366 days.',
  },
  external_id: { 'is invalid': 'The external ID contains a character that cannot be stored.' },
  max_bytes: { 'is invalid': 'Enter a size such as 500 MB or 2.5 GB.' },
  max_connections: { 'is invalid': 'The number of connections must be a whole number.' },
  name: { 'is invalid': 'The name contains a character that cannot be stored.' },
  password: {
    'is one of the most common ones: take another': 'This password is too common. Choose another.',
    'is your email: take another': 'Your email address cannot be your password. Choose another.',
  },
  path: { 'is invalid': 'Enter the path of a file such as in/report.pdf.' },
  public_key: {
    'has already been taken': 'This key has already been added.',
    'is an RSA key whose exponent protects nothing': 'This RSA key is insecure. Generate a new key.',
  },
  retention_days: { 'is invalid': 'The number of days must be a whole number.' },
  role: { 'is invalid': 'Choose one of the roles.' },
  secret: {
    'is in use already': 'This secret is already in use. Enter another.',
    'must be printable ASCII without blanks': 'Use printable ASCII characters without spaces.',
  },
  url: URL_SENTENCES,
  webhook_url: {
    ...URL_SENTENCES,
    'is not set: give the directory or the account a webhook URL first':
      'Enter a webhook URL. The account has none either.',
  },
};

const COUNT = /^should (?:be|have) at (least|most) (\d+) (character|byte|item)\(s\)$/;
const BOUND = /^must be (greater|less) than or equal to (-?\d+)$/;
const HOST_BITS = /^(.*) has host bits set: its network is (\S+)$/;

/** One sentence for each message about a field. `label` names the field where there is no better text. */
export function sentencesOf(field: string, messages: readonly string[], given: FormFields, label = field): string[] {
  if (field === 'allowed_networks') return messages.map((message) => networkSentence(message, given[field] ?? ''));
  return [...new Set(messages)].map((message) => sentenceOf(field, message, label));
}

function sentenceOf(field: string, message: string, label: string): string {
  const known = SENTENCES[field]?.[message];
  if (known !== undefined) return known;
  if (message === "can't be blank") return `Enter ${NOUNS[field] ?? 'a value'}.`;
  const [, atLeast, count, unit] = COUNT.exec(message) ?? [];
  if (atLeast !== undefined) return `Use at ${atLeast} ${Number(count).toLocaleString('en')} ${unit}s.`;
  const [, bound, limit] = BOUND.exec(message) ?? [];
  if (bound !== undefined) {
    const range = `${Number(limit).toLocaleString('en')} or ${bound === 'greater' ? 'more' : 'less'}`;
    const noun = NOUNS[field] ?? '';
    return noun.startsWith('the ') ? `T${noun.slice(1)} must be ${range}.` : `Enter ${range}.`;
  }
  const [, wait] = /^was wrong too often: try again in (.*)$/.exec(message) ?? [];
  if (wait !== undefined) return `Too many wrong attempts. Try again in ${wait}.`;
  const [, directory] = /^(.*) is not a directory of the account$/.exec(message) ?? [];
  if (directory !== undefined) return `${directory} is not the SFTP username of one of your directories.`;
  const [, reason] = /^is not a valid OpenSSH public key: (.*)$/.exec(message) ?? [];
  if (reason !== undefined) return `This is not an OpenSSH public key: ${reason}.`;
  // The message is a sentence already.
  if (/^[A-Z].*[.?]$/.test(message)) return message;
  return `${label} ${message}.`;
}

/** A sentence that names the line with the wrong network. */
function networkSentence(message: string, given: string): string {
  const [, wide, network] = HOST_BITS.exec(message) ?? [];
  const text = wide ?? message.replace(/ is invalid$/, '');
  const line = given.split(/\r?\n/).findIndex((each) => splitNetworks(each).includes(text)) + 1;
  if (line === 0)
    return COUNT.test(message) ? sentenceOf('', message, '') : 'One line is not an IP address or a CIDR range.';
  if (network !== undefined) return `Line ${line}: did you mean ${network}?`;
  return `Line ${line}: "${text}" is not an IP address or a CIDR range.`;
}

/** The networks in a text, separated by lines or commas. */
export function splitNetworks(text: string): string[] {
  return text.split(/[\n\r,]+/).flatMap((part) => part.trim() || []);
}
