/** What the answers hold, for openapi.json: the fields of the specification ("Resources"), no others. */
import * as v from 'valibot';

const Timestamp = v.pipe(v.string(), v.isoTimestamp());
const Text = v.nullable(v.string());
const Count = v.pipe(v.number(), v.integer(), v.minValue(0));

const listed = {
  id: v.pipe(v.string(), v.uuid()),
  name: v.string(),
  slug: v.string(),
  external_id: Text,
  sftp_username: v.string(),
  storage_bytes: Count,
  inserted_at: Timestamp,
};

export const ListItem = v.strictObject(listed);

export const Directory = v.strictObject({
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
});

export const CreatedDirectory = v.strictObject({ ...Directory.entries, sftp_password: v.string() });

export const Upload = v.strictObject({
  id: v.pipe(v.string(), v.uuid()),
  filename: v.string(),
  size_bytes: Count,
  uploaded_at: Timestamp,
});

export const HostKey = v.strictObject({
  type: v.string(),
  fingerprint: v.string(),
  known_hosts: v.string(),
  sshfp: v.pipe(v.array(v.string()), v.readonly()),
});

/** `{"data": …}` (specification, "Endpoints"). */
export function data<const S extends v.GenericSchema>(schema: S) {
  return v.strictObject({ data: schema });
}
