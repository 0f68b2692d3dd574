/** The values of a new directory's columns that neither the request nor berth sets. */
import type { DirectoryRow } from '../../foundation/db/schema.ts';

export const DEFAULTS = {
  description: null,
  external_id: null,
  metadata: '{}',
  webhook_url: null,
  uses_account_webhook: 1,
  next_webhook_secret: null,
  max_connections: 10,
  storage_bytes: 0,
  retention_days: 0,
  auth_mode: 'password',
  public_key: null,
  public_key_fingerprint: null,
  suspended: 0,
  expires_at: null,
  allowed_networks: '[]',
  events: null,
  quota_bytes: null,
  deleted_at: null,
} as const satisfies Partial<DirectoryRow>;
