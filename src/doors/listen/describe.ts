/** Shows a webhook for `berth listen` in a few lines, which are safe on a terminal whatever the names hold. */
import type { IncomingHttpHeaders } from 'node:http';
import { escaped } from '../../foundation/base/terminal.ts';

/** `unknown`: we have no secret to check the signature with. */
export type SignatureVerdict = 'right' | 'wrong' | 'missing' | 'unknown';

const VERDICTS: Record<SignatureVerdict, string> = {
  right: 'signature right',
  wrong: 'signature WRONG: the body or the secret differs',
  missing: 'signature missing: there is no x-service-signature header',
  unknown: 'signature not checked: this machine has no secret for the directory; give it with --secret',
};

export interface ShownWebhook {
  readonly body: Buffer;
  readonly headers: IncomingHttpHeaders;
  /** Counted from 1. */
  readonly attempt: number;
  readonly verdict: SignatureVerdict;
  readonly at: Date;
}

export function describeWebhook({ body, headers, attempt, verdict, at }: ShownWebhook): string {
  const time = at.toISOString().slice(11, 23);
  const sentAt = Number(headers['webhook-timestamp']);
  const sent = Number.isSafeInteger(sentAt) ? `, sent at ${new Date(sentAt * 1000).toISOString()}` : '';
  return [
    `${time}  ${content(body)}`,
    `  attempt ${attempt} of delivery ${shown(headers['webhook-id'] ?? 'without an id')}${sent}`,
    `  ${VERDICTS[verdict]}`,
    '',
  ].join('\n');
}

function content(body: Buffer): string {
  const fields = fieldsOf(body);
  if (!fields) return `a body that is not JSON, ${body.length} bytes: ${shown(body.toString().slice(0, 200))}`;
  const { event, filename, size_bytes: size, directory, directory_id: id, external_id: external } = fields;
  const externally = external === null || external === undefined ? '' : `, external_id ${shown(external)}`;
  return `${bare(event)}: ${shown(filename)}, ${bare(size)} bytes\n  directory ${bare(directory)} (${bare(id)})${externally}`;
}

/** Undefined when the body is not a JSON object. */
export function fieldsOf(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** Quotes a value, and escapes every character that could move the cursor, or colour or reorder the line. */
function shown(value: unknown): string {
  return escaped(JSON.stringify(value) ?? 'nothing');
}

/** Like `shown`, but without quotes if the text is plain. */
function bare(value: unknown): string {
  return typeof value === 'string' && /^[\w.-]+$/.test(value) ? value : shown(value);
}
