/**
 * Schemas of responses and webhooks for openapi.json. Resources of the specification have exactly its fields ("Resources"). A
 * schema with a title is written once, among the components.
 */
import * as v from 'valibot';
import { EVENT_KINDS, type EventKind } from '../../foundation/db/schema.ts';

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
    filename: v.pipe(v.string(), v.description('Its path in the directory.')),
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
    // Not a literal, since generators cannot handle a constant that is not a string.
    test: v.optional(
      v.pipe(v.boolean(), v.description('`true` in a test webhook, for which there is no file. Otherwise missing.')),
    ),
  }),
  v.title('FileUploaded'),
);

const Filename = v.pipe(v.string(), v.description('Its path in the directory.'));

/** The body of a webhook for subscribers: the fields that all have, and the event's own. */
function furtherEvent<const E extends Exclude<EventKind, 'file.uploaded'>, const F extends v.ObjectEntries>(
  event: E,
  fields: F,
  title: string,
) {
  const whose = { event: v.literal(event), directory_id: Id, external_id: Text };
  const slug = { directory: v.pipe(v.string(), v.description('The slug.')) };
  return v.pipe(v.strictObject({ ...whose, ...fields, ...slug }), v.title(title));
}

export const FileDeleted = furtherEvent(
  'file.deleted',
  { filename: Filename, size_bytes: Count, deleted_at: Timestamp },
  'FileDeleted',
);
export const FileRenamed = furtherEvent(
  'file.renamed',
  { filename: Filename, previous_filename: v.string(), renamed_at: Timestamp },
  'FileRenamed',
);
export const FileDownloaded = furtherEvent(
  'file.downloaded',
  {
    filename: Filename,
    sent_bytes: v.pipe(
      Count,
      v.description("How much the client has read: less than the file's size if it read only a part."),
    ),
    downloaded_at: Timestamp,
  },
  'FileDownloaded',
);
export const FileRejected = furtherEvent(
  'file.rejected',
  {
    filename: Filename,
    size_bytes: Count,
    reason: v.pipe(Text, v.description("The checker's reason.")),
    rejected_at: Timestamp,
  },
  'FileRejected',
);
export const UploadFailed = furtherEvent(
  'upload.failed',
  { filename: Filename, size_bytes: v.pipe(Count, v.description('How much has arrived.')), failed_at: Timestamp },
  'UploadFailed',
);
export const LoginRefused = furtherEvent(
  'login.refused',
  {
    sftp_username: v.string(),
    address: v.pipe(Text, v.description("The client's address, if sshd logged it.")),
    reason: v.pipe(v.string(), v.description('Such as `wrong password`, `unknown key`, or `suspended`.')),
    refused_at: Timestamp,
  },
  'LoginRefused',
);

const AnyEvent = v.variant('event', [
  FileUploaded,
  FileDeleted,
  FileRenamed,
  FileDownloaded,
  FileRejected,
  UploadFailed,
  LoginRefused,
]);

/** The subscribed events. */
export const WantedEvents = v.pipe(
  v.strictObject({
    events: v.array(v.picklist(EVENT_KINDS)),
    inherited: v.pipe(
      v.boolean(),
      v.description(
        "Whether these are the account's events, because the directory has none of its own. Always `false` for an account.",
      ),
    ),
  }),
  v.title('WantedEvents'),
);

/** An entry of the feed. */
export const Event = v.pipe(
  v.strictObject({
    sequence: v.pipe(Count, v.description("Numbers the account's events: 1, 2, 3, …")),
    event: v.pipe(
      v.string(),
      v.description(
        '`file.uploaded`, another subscribed event, or `erased` if an operator has erased the names in `data`. Later versions may add more.',
      ),
    ),
    at: Timestamp,
    directory_id: Id,
    upload_id: v.nullable(Id),
    data: AnyEvent,
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
    event: v.picklist(EVENT_KINDS),
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

/** The result of a test. */
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

/** `{"data": …}` (specification, "Endpoints"). */
export function data<const S extends v.GenericSchema>(schema: S) {
  return v.strictObject({ data: schema });
}
