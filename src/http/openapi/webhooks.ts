/** The webhook as openapi.json has it (specification, "Events"). */
import { FileUploaded } from '../schemas.ts';
import type { SchemaSet } from './json-schema.ts';

export const UPLOADED = {
  event: 'file.uploaded',
  directory_id: '18db3dc8-bfa8-4427-9a27-af3b079ff5b8',
  external_id: 'order-7',
  filename: 'in/orders.csv',
  size_bytes: 12,
  uploaded_at: '2026-11-20T20:50:00.123456Z',
  directory: 'acme-corp',
};

/** Headers stand here and not among the parameters: generators of clients cannot do with those of a webhook. */
const ABOUT = `Sent to the \`webhook_url\` of a directory, up to four times. Verify \`webhook-signature\` over the raw body, answer within 5 seconds and work afterwards. The same file may be announced more than once, and webhooks may come in another order than the files.

| header | |
|---|---|
| \`webhook-id\` | The delivery: the same at each of its attempts. |
| \`webhook-timestamp\` | When this attempt was made, in seconds since 1970. |
| \`webhook-signature\` | As Standard Webhooks has it: \`v1,\` and the HMAC-SHA256 of \`webhook-id\`, \`webhook-timestamp\` and the raw body, joined by full stops, in base64; keyed with the bytes that the secret encodes in base64. Two, with a blank between them, while a new secret is being introduced. |
| \`webhook-upload-id\` | The id of the upload: fetch its content with it. Missing in a test, and when the file was replaced before berth could look at it. No signature covers it; the delivery has the same \`upload_id\`. |
| \`x-service-signature\` | \`sha256=\` and the HMAC-SHA256 of the raw body in lowercase hex, keyed with the \`webhook_secret\`. It does not cover the time: an attacker who has one request can send it again. |`;

const NAME = 'fileUploaded';

/** openapi-generator makes a class of requests of a webhook that stands here; one that is referred to it leaves alone. */
export const WEBHOOKS = { [NAME]: { $ref: `#/components/pathItems/${NAME}` } };

export function webhookPathItems(schemas: SchemaSet): object {
  return {
    [NAME]: {
      post: {
        operationId: NAME,
        tags: ['Webhooks'],
        summary: 'A file has arrived',
        description: ABOUT,
        security: [],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: schemas.add(FileUploaded), example: UPLOADED } },
        },
        responses: {
          '2XX': { description: 'The receiver accepted it. Any other answer, or none within 5 seconds, is a failure.' },
        },
      },
    },
  };
}
