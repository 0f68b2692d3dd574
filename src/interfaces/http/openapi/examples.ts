/** Real responses, for openapi.json. */

const listed = {
  id: '18db3dc8-bfa8-4427-9a27-af3b079ff5b8',
  name: 'Acme Corp',
  slug: 'acme-corp',
  external_id: 'order-7',
  sftp_username: 'acme-corp-bh5rirmw',
  storage_bytes: 0,
  inserted_at: '2026-11-22T09:21:49.980260Z',
};

const created = {
  ...listed,
  description: null,
  metadata: { team: 'billing' },
  sftp_host: 'sftp.example.com',
  sftp_port: 2222,
  webhook_url: null,
  webhook_secret: 'Mov1Ph1t6a5s5pFkEBQrm5YgQah93JCY',
  max_connections: 10,
  retention_days: 30,
  auth_mode: 'password',
  public_key_fingerprint: null,
  updated_at: '2026-11-22T09:21:49.980260Z',
};

export const LISTED = { data: [listed] };
export const CREATED = { data: { ...created, sftp_password: 'Wlnv1OOQFSr5lnn218wxbHNeBTkcEveR' } };
export const DIRECTORY = {
  data: { ...created, webhook_url: 'https://example.com/hook', updated_at: '2026-11-22T09:21:50.012405Z' },
};
const upload = {
  id: '5f0c9f6e-0c0b-4c0e-9f44-5a6d1a3b7c21',
  filename: 'in/orders.csv',
  size_bytes: 12,
  uploaded_at: '2026-11-22T09:30:00.123456Z',
};
export const UPLOADS = { data: [upload] };
export const UPLOAD = { data: upload };
