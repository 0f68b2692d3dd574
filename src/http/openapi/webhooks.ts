/** The webhook as openapi.json has it (specification, "Events"). */
import { FileUploaded } from '../schemas.ts';
import type { SchemaSet } from './json-schema.ts';

const header = (name: string, description: string, example: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
  example,
});

export const UPLOADED = {
  event: 'file.uploaded',
  directory_id: '18db3dc8-bfa8-4427-9a27-af3b079ff5b8',
  external_id: 'order-7',
  filename: 'in/orders.csv',
  size_bytes: 12,
  uploaded_at: '2026-11-20T20:50:00.123456Z',
  directory: 'acme-corp',
};

export function webhooks(schemas: SchemaSet): object {
  return {
    fileUploaded: {
      post: {
        operationId: 'fileUploaded',
        tags: ['Webhooks'],
        summary: 'A file has arrived',
        description:
          'Sent to the `webhook_url` of a directory, up to four times. Verify the signature over the raw body, answer within 5 seconds and work afterwards; the same file may be announced more than once.',
        security: [],
        parameters: [
          header(
            'x-service-signature',
            '`sha256=` and the HMAC-SHA256 of the raw body in lowercase hex, keyed with the `webhook_secret`.',
            'sha256=dc75e5f58bf3a3a30e4ef5f0c1ac2a01f2ca46bd8a17af35b36b56d3b3c3b1d1',
          ),
          header(
            'webhook-id',
            'The delivery: the same at each of its attempts.',
            'fdde0852-7e73-4ab5-959b-884007b21082',
          ),
          header(
            'webhook-upload-id',
            'The upload that it is about: fetch its content with it. Missing in a test, and when the file was replaced before berth could look at it. No signature covers it; the `upload_id` of the delivery is the same.',
            '5f0c9f6e-0c0b-4c0e-9f44-5a6d1a3b7c21',
          ),
          header('webhook-timestamp', 'When this attempt was made, in seconds since 1970.', '1795212999'),
          header(
            'webhook-signature',
            'As Standard Webhooks has it: `v1,` and the HMAC-SHA256 of `webhook-id`, `webhook-timestamp` and the raw body, joined by full stops, in base64; keyed with the bytes that the secret encodes in base64. Two, with a blank between them, while a new secret is being introduced.',
            'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
          ),
        ],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: schemas.add(FileUploaded), example: UPLOADED } },
        },
        responses: { '2XX': { description: 'It was taken; any other answer, or none within 5 seconds, is a failure' } },
      },
    },
  };
}
