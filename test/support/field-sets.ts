/** The exact fields of each response, in the order of the specification ("Resources and their fields"). */

export const LIST_FIELDS = [
  'id',
  'name',
  'slug',
  'external_id',
  'sftp_username',
  'storage_bytes',
  'inserted_at',
] as const;

export const FULL_FIELDS = [
  'id',
  'name',
  'description',
  'slug',
  'external_id',
  'metadata',
  'sftp_host',
  'sftp_port',
  'sftp_username',
  'webhook_url',
  'webhook_secret',
  'max_connections',
  'storage_bytes',
  'retention_days',
  'auth_mode',
  'public_key_fingerprint',
  'inserted_at',
  'updated_at',
] as const;

export const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/;
/** ISO 8601 UTC with six decimals. */
export const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

/** The `data` of an answer's body, as what the test takes it for. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- a cast in one place instead of in every test
export function dataOf<T = Record<string, unknown>>(answer: { readonly json: unknown }): T {
  return (answer.json as { data: T }).data;
}
