/** The exact fields of a directory in responses, in the order of the specification ("Resources"). */
import { formatMicros } from '../../foundation/base/clock.ts';
import type { ListedDirectory, ShownDirectory } from '../../rules/directories/view.ts';

/** The seven fields in a list. */
export function listItem(directory: ListedDirectory): object {
  const { id, name, slug, external_id, sftp_username, storage_bytes, inserted_at } = directory;
  return { id, name, slug, external_id, sftp_username, storage_bytes, inserted_at: formatMicros(inserted_at) };
}

/**
 * The JSON text of all eighteen fields, and of the password where a response has it. Metadata is stored as JSON text and
 * inserted as it is, so that nothing is parsed and no number changes.
 */
export function fullDirectory(directory: ShownDirectory, sftp_password?: string): string {
  const { id, name, description, slug, external_id } = directory;
  const before = JSON.stringify({ id, name, description, slug, external_id });
  const after = JSON.stringify({
    sftp_host: directory.sftp_host,
    sftp_port: directory.sftp_port,
    sftp_username: directory.sftp_username,
    sftp_password,
    webhook_url: directory.webhook_url,
    webhook_secret: directory.webhook_secret,
    max_connections: directory.max_connections,
    storage_bytes: directory.storage_bytes,
    retention_days: directory.retention_days,
    auth_mode: directory.auth_mode,
    public_key_fingerprint: directory.public_key_fingerprint,
    inserted_at: formatMicros(directory.inserted_at),
    updated_at: formatMicros(directory.updated_at),
  });
  return `${before.slice(0, -1)},"metadata":${directory.metadata},${after.slice(1)}`;
}
