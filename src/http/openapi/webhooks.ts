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

const EXAMPLE = {
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
        ],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: schemas.add(FileUploaded), example: EXAMPLE } },
        },
        responses: { '2XX': { description: 'It was taken; any other answer, or none within 5 seconds, is a failure' } },
      },
    },
  };
}
