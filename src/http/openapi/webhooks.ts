/** The webhooks as openapi.json has them. The first is the specification's ("Events"). */
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

/** Headers stand here and not among the parameters: generators of clients cannot do with those of a webhook. */
const ABOUT = `Sent to the \`webhook_url\` of a directory, up to four times. Verify \`webhook-signature\` over the raw body, answer within 5 seconds and work afterwards. The same file may be announced more than once, and webhooks may come in another order than the files.

| header | |
|---|---|
| \`webhook-id\` | The delivery: the same at each of its attempts. |
| \`webhook-timestamp\` | When this attempt was made, in seconds since 1970. |
| \`webhook-signature\` | As Standard Webhooks has it: \`v1,\` and the HMAC-SHA256 of \`webhook-id\`, \`webhook-timestamp\` and the raw body, joined by full stops, in base64; keyed with the bytes that the secret encodes in base64. Two, with a blank between them, while a new secret is being introduced. |
| \`webhook-upload-id\` | The id of the upload: fetch its content with it. Missing in a test, and when the file was replaced before berth could look at it. No signature covers it; the delivery has the same \`upload_id\`. |
| \`x-service-signature\` | \`sha256=\` and the HMAC-SHA256 of the raw body in lowercase hex, keyed with the \`webhook_secret\`. It does not cover the time: an attacker who has one request can send it again. |`;

const WHOSE = { directory_id: UPLOADED.directory_id, external_id: UPLOADED.external_id };
const FILE = { filename: UPLOADED.filename, size_bytes: UPLOADED.size_bytes };
const AT = UPLOADED.uploaded_at;

/** The events beside `file.uploaded`: by operation id, each with its schema and an example. */
const FURTHER = {
  fileDeleted: {
    schema: FileDeleted,
    summary: 'A file has gone',
    description:
      'Removed by the customer, through the API or the dashboard, by an administrator, or by `retention_days`.',
    example: { event: 'file.deleted', ...WHOSE, ...FILE, deleted_at: AT },
  },
  fileRenamed: {
    schema: FileRenamed,
    summary: 'A file or a folder has another name',
    description:
      'A folder that is renamed with files in it has one event with its own names. The last step of an upload under a temporary name is `file.uploaded` alone.',
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
    description: 'Each handle that was read and closed is one. Downloads by HTTPS are not announced.',
    example: { event: 'file.downloaded', ...WHOSE, filename: UPLOADED.filename, sent_bytes: 12, downloaded_at: AT },
  },
  fileRejected: {
    schema: FileRejected,
    summary: 'The checker has rejected a file',
    description: 'Where the operator has uploads checked: the file never was an upload, and is in quarantine.',
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
    description: 'The connection died before the file was closed. A client that resumes it makes it an upload.',
    example: { event: 'upload.failed', ...WHOSE, ...FILE, failed_at: AT },
  },
  loginRefused: {
    schema: LoginRefused,
    summary: 'A login was refused',
    description:
      'At most one for each user and reason in a minute of the clock, some minutes later at the latest. Needs the dashboard to be on, whose log of logins it is taken from.',
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
  '2XX': { description: 'The receiver accepted it. Any other answer, or none within 5 seconds, is a failure.' },
};

const NAMES = ['fileUploaded', ...Object.keys(FURTHER)];

/** openapi-generator makes a class of requests of a webhook that stands here; one that is referred to it leaves alone. */
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
        description: `${description}\n\nOnly where the directory or its account asks for it; signed, retried and logged as \`file.uploaded\`.`,
        ...common,
        requestBody: content(schema, { ...example, directory: UPLOADED.directory }),
      },
    },
  ]);
  return { fileUploaded: { post: uploaded }, ...(Object.fromEntries(further) as object) };
}
