/** The webhooks in openapi.json. The specification ("Events") defines only the first. */
import type { GenericSchema } from 'valibot';
import {
  FileDeleted,
  FileDownloaded,
  FileRejected,
  FileRenamed,
  FileUploaded,
  LoginRefused,
  UploadFailed,
} from '../schemas.ts';
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

/** The headers are described here, and not as parameters, since client generators cannot handle parameters of webhooks. */
const ABOUT = `Sent to the \`webhook_url\` of a directory, up to four times. Verify \`webhook-signature\` over the raw body, answer within 5 seconds, and process the file after that. The same file may be announced more than once, and webhooks may arrive in a different order from the files.

| header | |
|---|---|
| \`webhook-id\` | The id of the delivery, the same at each attempt. |
| \`webhook-timestamp\` | When this attempt was made, in seconds since 1970. |
| \`webhook-signature\` | As in Standard Webhooks: \`v1,\` and the HMAC-SHA256 of \`webhook-id\`, \`webhook-timestamp\` and the raw body, joined by full stops, in base64. The key is the base64-decoded secret. While a new secret is being introduced, there are two signatures, separated by a space. |
| \`webhook-upload-id\` | The id of the upload, for fetching its content. Missing in a test, and if the file was replaced before berth could inspect it. No signature covers this header; the delivery has the same \`upload_id\`. |
| \`x-service-signature\` | \`sha256=\` and the HMAC-SHA256 of the raw body in lowercase hex, keyed with the \`webhook_secret\`. It does not cover the time: an attacker who has one request can send it again. |`;

const WHOSE = { directory_id: UPLOADED.directory_id, external_id: UPLOADED.external_id };
const FILE = { filename: UPLOADED.filename, size_bytes: UPLOADED.size_bytes };
const AT = UPLOADED.uploaded_at;

/** The events besides `file.uploaded`, by operation id. */
const FURTHER = {
  fileDeleted: {
    schema: FileDeleted,
    summary: 'A file was deleted',
    description:
      'The file was removed by the customer, through the API or the dashboard, by an administrator, or because of `retention_days`.',
    example: { event: 'file.deleted', ...WHOSE, ...FILE, deleted_at: AT },
  },
  fileRenamed: {
    schema: FileRenamed,
    summary: 'A file or a folder was renamed',
    description:
      "Renaming a folder sends one event, with the folder's names. When an upload under a temporary name gets its final name, only `file.uploaded` is sent.",
    example: {
      event: 'file.renamed',
      ...WHOSE,
      filename: 'done/orders.csv',
      previous_filename: 'in/orders.csv',
      renamed_at: AT,
    },
  },
  fileDownloaded: {
    schema: FileDownloaded,
    summary: 'A customer has fetched a file by SFTP',
    description: 'One event for each handle that was read and closed. Downloads by HTTPS are not announced.',
    example: { event: 'file.downloaded', ...WHOSE, filename: UPLOADED.filename, sent_bytes: 12, downloaded_at: AT },
  },
  fileRejected: {
    schema: FileRejected,
    summary: 'The checker has rejected a file',
    description:
      'Only if the operator has set up a checker. The file is in quarantine, and was never announced as an upload.',
    example: {
      event: 'file.rejected',
      ...WHOSE,
      ...FILE,
      reason: 'Eicar-Test-Signature',
      rejected_at: AT,
    },
  },
  uploadFailed: {
    schema: UploadFailed,
    summary: 'An upload was cut off',
    description: 'The connection was lost before the file was closed. If a client resumes it, it becomes an upload.',
    example: { event: 'upload.failed', ...WHOSE, ...FILE, failed_at: AT },
  },
  loginRefused: {
    schema: LoginRefused,
    summary: 'A login was refused',
    description: 'At most one event per minute for each user and reason, sent within a few minutes.',
    example: {
      event: 'login.refused',
      ...WHOSE,
      sftp_username: 'acme-corp-bh5rirmw',
      address: '203.0.113.7',
      reason: 'wrong password',
      refused_at: AT,
    },
  },
};

const RESPONSES = {
  '2XX': {
    description: 'The receiver accepted the webhook. Any other response, or none within 5 seconds, is a failure.',
  },
};

const NAMES = ['fileUploaded', ...Object.keys(FURTHER)];

/** References, since openapi-generator would generate a class of requests from each webhook that is defined here. */
export const WEBHOOKS = Object.fromEntries(NAMES.map((name) => [name, { $ref: `#/components/pathItems/${name}` }]));

export function webhookPathItems(schemas: SchemaSet): object {
  const content = (schema: GenericSchema, example: object) => ({
    required: true,
    content: { 'application/json': { schema: schemas.add(schema), example } },
  });
  const common = { tags: ['Webhooks'], security: [], responses: RESPONSES };
  const uploaded = {
    operationId: 'fileUploaded',
    summary: 'A file has arrived',
    description: ABOUT,
    ...common,
    requestBody: content(FileUploaded, UPLOADED),
  };
  const further = Object.entries(FURTHER).map(([operationId, { schema, summary, description, example }]) => [
    operationId,
    {
      post: {
        operationId,
        summary,
        description: `${description}\n\nSent only if the directory or its account subscribes to it. Signed, retried and logged like \`file.uploaded\`.`,
        ...common,
        requestBody: content(schema, { ...example, directory: UPLOADED.directory }),
      },
    },
  ]);
  return { fileUploaded: { post: uploaded }, ...(Object.fromEntries(further) as object) };
}
