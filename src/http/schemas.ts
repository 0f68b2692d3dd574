/**
 * What answers and webhooks hold, for openapi.json: the fields of the specification ("Resources"), no others. A schema with
 * a title is written once, among its components.
 */
import * as v from 'valibot';

const Id = v.pipe(v.string(), v.uuid());
export const Timestamp = v.pipe(v.string(), v.isoTimestamp());
const Text = v.nullable(v.string());
export const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Duration = v.pipe(v.number(), v.minValue(0));

const listed = {
  id: Id,
  name: v.string(),
  slug: v.string(),
  external_id: Text,
  sftp_username: v.string(),
  storage_bytes: Count,
  inserted_at: Timestamp,
};

export const ListItem = v.pipe(v.strictObject(listed), v.title('ListedDirectory'));

const directory = {
  ...listed,
  description: Text,
  metadata: v.record(v.string(), v.unknown()),
  sftp_host: v.string(),
  sftp_port: Count,
  webhook_url: Text,
  webhook_secret: v.string(),
  max_connections: Count,
  retention_days: Count,
  auth_mode: v.picklist(['password', 'public_key', 'both']),
  public_key_fingerprint: Text,
  updated_at: Timestamp,
};

export const Directory = v.pipe(v.strictObject(directory), v.title('Directory'));

export const CreatedDirectory = v.pipe(
  v.strictObject({ ...directory, sftp_password: v.pipe(v.string(), v.description('Shown only here.')) }),
  v.title('CreatedDirectory'),
);

export const AccessState = v.pipe(
  v.strictObject({
    suspended: v.boolean(),
    expires_at: v.nullable(Timestamp),
    allowed_networks: v.array(v.string()),
  }),
  v.title('AccessState'),
);

export const PublicKey = v.pipe(
  v.strictObject({
    fingerprint: v.pipe(v.string(), v.description('As `ssh-keygen -l` shows it.')),
    type: v.string(),
    comment: Text,
    inserted_at: Timestamp,
    last_used_at: v.nullable(Timestamp),
  }),
  v.title('PublicKey'),
);

export const Upload = v.pipe(
  v.strictObject({
    id: Id,
    filename: v.pipe(v.string(), v.description('Its path below the directory.')),
    size_bytes: Count,
    uploaded_at: Timestamp,
  }),
  v.title('Upload'),
);

/** The body of a webhook (specification, "Body"). */
export const FileUploaded = v.pipe(
  v.strictObject({
    event: v.literal('file.uploaded'),
    directory_id: Id,
    external_id: Text,
    filename: v.string(),
    size_bytes: Count,
    uploaded_at: Timestamp,
    directory: v.pipe(v.string(), v.description('The slug.')),
    // No literal: generators cannot do with a constant that is no text.
    test: v.optional(
      v.pipe(v.boolean(), v.description('`true` in a test that was asked for: there is no such file. Else missing.')),
    ),
  }),
  v.title('FileUploaded'),
);

/** What stands in the feed. */
export const Event = v.pipe(
  v.strictObject({
    sequence: v.pipe(Count, v.description('Its number in the account: 1, 2, 3, …')),
    event: v.pipe(
      v.string(),
      v.description(
        '`file.uploaded`, or `erased` when an operator has erased the names in `data`; later versions have more.',
      ),
    ),
    at: Timestamp,
    directory_id: Id,
    upload_id: v.nullable(Id),
    data: FileUploaded,
  }),
  v.title('Event'),
);

/** The two shapes of refusals (specification, "Errors"). */
export const Problem = v.pipe(v.strictObject({ error: v.string() }), v.title('Problem'));

export const ValidationProblems = v.pipe(
  v.strictObject({ errors: v.record(v.string(), v.pipe(v.array(v.string()), v.minLength(1))) }),
  v.title('ValidationProblems'),
);

export const HostKey = v.pipe(
  v.strictObject({
    type: v.string(),
    fingerprint: v.string(),
    known_hosts: v.string(),
    sshfp: v.pipe(v.array(v.string()), v.readonly()),
  }),
  v.title('HostKey'),
);

/** A webhook on its way to the receiver, with its attempts. */
export const Delivery = v.pipe(
  v.strictObject({
    id: v.pipe(v.string(), v.uuid(), v.description('The `webhook-id` of its requests.')),
    event: v.literal('file.uploaded'),
    upload_id: v.nullable(Id),
    state: v.picklist(['pending', 'delivered', 'failed']),
    attempts: v.array(
      v.strictObject({ at: Timestamp, status: v.nullable(Count), error: Text, duration_ms: v.nullable(Duration) }),
    ),
    next_attempt_at: v.nullable(Timestamp),
    url: v.string(),
    inserted_at: Timestamp,
  }),
  v.title('Delivery'),
);

/** What came of a test. */
export const TestOutcome = v.pipe(
  v.strictObject({ delivered: v.boolean(), status: v.nullable(Count), error: Text, duration_ms: Duration }),
  v.title('TestOutcome'),
);

export const DirectoryWebhook = v.pipe(
  v.strictObject({ webhook_url: Text, uses_account_webhook: v.boolean(), sends_to: Text }),
  v.title('DirectoryWebhook'),
);

export const AccountWebhook = v.pipe(v.strictObject({ url: Text, secret: Text }), v.title('AccountWebhook'));

/** A webhook secret, and whether `x-service-signature` is made with it. */
export const WebhookSecret = v.pipe(
  v.strictObject({ secret: v.string(), active: v.boolean() }),
  v.title('WebhookSecret'),
);

/** Kept for clients of earlier versions. */
export function deprecated<const S extends v.GenericSchema>(schema: S) {
  return v.pipe(schema, v.metadata({ deprecated: true }), v.description('The same fields again, for older clients.'));
}

/** `{"data": …}` (specification, "Endpoints"). */
export function data<const S extends v.GenericSchema>(schema: S) {
  return v.strictObject({ data: schema });
}
