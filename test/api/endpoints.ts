/** What each endpoint has to refuse according to the specification, not the code: the oracle of `refusals.test.ts`. */

export interface Expected {
  /** `some`: members may make some of its requests. The endpoint's own test says which. */
  readonly role: 'admin' | 'any' | 'some';
  /** JSON that it takes; undefined for none. */
  readonly right?: unknown;
  /** JSON that gets 422; empty if the endpoint reads none. */
  readonly wrongBodies: readonly unknown[];
  /** What it needs behind the question mark. */
  readonly query?: string;
  /** What gets 422 below the directory. */
  readonly wrongPaths?: readonly string[];
  /** What gets 422 behind the question mark. */
  readonly wrongQueries?: readonly string[];
}

const PAGES = ['limit=0', 'limit=1001', 'limit=x', 'limit=-1', 'limit=', 'limit=1.5'];

const ID = '00000000-0000-4000-8000-000000000000';

const NO_DIRECTORY = [{}, { directory: null }, { directory: [] }, { directory: 'x' }];

export const ENDPOINTS: Readonly<Record<string, Expected>> = {
  'GET /api/v1/directories': { role: 'any', wrongBodies: [], wrongQueries: PAGES },
  'POST /api/v1/directories': {
    role: 'any',
    right: { directory: { name: 'Acme', external_id: 'x', metadata: {}, max_connections: 3, retention_days: 1 } },
    wrongBodies: [...NO_DIRECTORY, { directory: {} }, { directory: { name: '' } }],
  },
  'GET /api/v1/directories/:id': { role: 'any', wrongBodies: [] },
  'PATCH /api/v1/directories/:id': {
    role: 'some',
    right: { directory: { name: 'Acme' } },
    wrongBodies: [...NO_DIRECTORY, { directory: { name: '' } }, { directory: { auth_mode: 'none' } }],
  },
  'DELETE /api/v1/directories/:id': { role: 'any', wrongBodies: [] },
  'DELETE /api/v1/directories/:id/public_key': { role: 'admin', wrongBodies: [] },
  'POST /api/v1/directories/:id/password': { role: 'admin', wrongBodies: [] },
  'GET /api/v1/directories/:id/public_keys': { role: 'any', wrongBodies: [] },
  'POST /api/v1/directories/:id/public_keys': {
    role: 'admin',
    right: { public_key: `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${'A'.repeat(43)}` },
    wrongBodies: [{}, { public_key: null }, { public_key: 'ssh-ed25519 AAAA' }],
  },
  'DELETE /api/v1/directories/:id/public_keys/:fingerprint{.+}': { role: 'admin', wrongBodies: [] },
  'GET /api/v1/directories/:id/access': { role: 'any', wrongBodies: [] },
  'PATCH /api/v1/directories/:id/access': {
    role: 'admin',
    right: { suspended: false, allowed_networks: ['127.0.0.0/8'] },
    wrongBodies: [{ suspended: 'yes' }, { suspended: null }, { access: { suspended: true } }],
  },
  'GET /api/v1/directories/:id/uploads': {
    role: 'any',
    wrongBodies: [],
    wrongQueries: [...PAGES, 'since=x', 'since=', 'since=2026-13-01T00:00:00Z'],
  },
  'DELETE /api/v1/directories/:id/uploads': {
    role: 'any',
    query: `?ids=${ID}`,
    wrongBodies: [],
    wrongQueries: ['', 'ids=', 'ids=x', `ids=${ID},`, `ids=${ID}&more=1`, `ids=${Array(101).fill(ID).join(',')}`],
  },
  'GET /api/v1/directories/:id/uploads/:upload_id': { role: 'any', wrongBodies: [] },
  'GET /api/v1/directories/:id/uploads/:upload_id/content': { role: 'any', wrongBodies: [] },
  'DELETE /api/v1/directories/:id/uploads/:upload_id': { role: 'any', wrongBodies: [] },
  'GET /api/v1/directories/:id/files': {
    role: 'any',
    wrongBodies: [],
    wrongQueries: [...PAGES, 'after=', 'after=a%20b'],
  },
  'GET /api/v1/directories/:id/files/:path{.+}': { role: 'any', wrongBodies: [], wrongPaths: ['/files/a//b'] },
  'DELETE /api/v1/directories/:id/files/:path{.+}': { role: 'any', wrongBodies: [], wrongPaths: ['/files/a//b'] },
  'PUT /api/v1/directories/:id/files/:path{.+}': {
    role: 'any',
    wrongBodies: [],
    wrongPaths: ['/files/a%2f%2fb', '/files/a%00b', `/files/${'x'.repeat(256)}`, '/files/a//b'],
  },
  'POST /api/v1/directories/:id/links': {
    role: 'any',
    right: { for: 'download', path: 'x', expires_at: new Date(Date.now() + 86_400_000).toISOString() },
    wrongBodies: [{}, { for: 'download', path: '../x', expires_at: '2020-01-01T00:00:00Z' }],
  },
  'GET /api/v1/directories/:id/links': { role: 'any', wrongBodies: [], wrongQueries: PAGES },
  'DELETE /api/v1/directories/:id/links': { role: 'any', wrongBodies: [] },
  'DELETE /api/v1/directories/:id/links/:link_id': { role: 'any', wrongBodies: [] },
  'POST /api/v1/directories/:id/partial/:file_id/announce': { role: 'admin', wrongBodies: [] },
  'DELETE /api/v1/directories/:id/partial/:file_id': { role: 'admin', wrongBodies: [] },
  'POST /api/v1/directories/:id/uploads/:upload_id/announce': { role: 'any', wrongBodies: [] },
  'GET /api/v1/directories/:id/deliveries': {
    role: 'any',
    wrongBodies: [],
    wrongQueries: [...PAGES, 'state=x', 'state=', 'state=pending,failed'],
  },
  'GET /api/v1/directories/:id/deliveries/:delivery_id{[0-9a-fA-F-]+}': { role: 'any', wrongBodies: [] },
  'POST /api/v1/directories/:id/deliveries/:delivery_id/replay': { role: 'any', wrongBodies: [] },
  'POST /api/v1/directories/:id/deliveries/replay': {
    role: 'any',
    right: { since: '2026-11-20T00:00:00Z' },
    wrongBodies: [{}, { since: null }, { since: '' }, { since: 'yesterday' }, { since: 1_795_212_999 }],
  },
  'POST /api/v1/directories/:id/webhook/test': { role: 'any', wrongBodies: [] },
  'POST /api/v1/directories/:id/webhook_secret': {
    role: 'admin',
    right: { activate: false },
    wrongBodies: [
      [null],
      { activate: 'yes' },
      { activate: null },
      { secret: null },
      { secret: 'x'.repeat(15) },
      { secret: 'x'.repeat(65) },
      { secret: 'ü'.repeat(16) },
      { secret: 7 },
    ],
  },
  'GET /api/v1/directories/:id/quota': { role: 'any', wrongBodies: [] },
  'PUT /api/v1/directories/:id/quota': {
    role: 'admin',
    right: { max_bytes: 1_000_000 },
    wrongBodies: [
      {},
      { quota: { max_bytes: 1 } },
      { max_bytes: 1, more: 2 },
      ...[-1, 1.5, '1', true, 2 ** 60].map((max_bytes) => ({ max_bytes })),
    ],
  },
  'GET /api/v1/directories/:id/webhook': { role: 'any', wrongBodies: [] },
  'PATCH /api/v1/directories/:id/webhook': {
    role: 'any',
    right: { uses_account_webhook: false },
    wrongBodies: [
      { uses_account_webhook: null },
      { uses_account_webhook: 'no' },
      { webhook_url: 'ftp://x' },
      { url: null },
    ],
  },
  'GET /api/v1/directories/:id/webhook/events': { role: 'any', wrongBodies: [] },
  'PUT /api/v1/directories/:id/webhook/events': {
    role: 'any',
    right: { events: ['file.deleted'] },
    wrongBodies: [{}, { events: 'file.deleted' }, { events: ['file.moved'] }, { events: [7] }, { events: [], more: 1 }],
  },
  'GET /api/v1/webhook/events': { role: 'any', wrongBodies: [] },
  'PUT /api/v1/webhook/events': {
    role: 'admin',
    right: { events: ['file.deleted'] },
    wrongBodies: [{}, { events: 'file.deleted' }, { events: ['file.moved'] }, { events: [], more: 1 }],
  },
  'GET /api/v1/webhook': { role: 'any', wrongBodies: [] },
  'PUT /api/v1/webhook': {
    role: 'admin',
    right: { url: 'https://example.com/hook' },
    wrongBodies: [{}, { url: 'ftp://x' }, { url: 7 }, { url: null, more: 1 }],
  },
  'POST /api/v1/webhook/secret': {
    role: 'admin',
    right: { activate: false },
    wrongBodies: [[null], { activate: 'yes' }, { secret: 'short' }],
  },
  'GET /api/v1/events': {
    role: 'any',
    wrongBodies: [],
    wrongQueries: [...PAGES, 'after=x', 'after=', 'after=-1', 'after=1.5', 'after=99999999999999999999', 'after=1'],
  },
  'GET /api/v1/host_keys': { role: 'any', wrongBodies: [] },
  'GET /api/v1/api_keys': { role: 'admin', wrongBodies: [], wrongQueries: [...PAGES, 'after=x', 'after='] },
  'POST /api/v1/api_keys': {
    role: 'admin',
    right: { name: 'nightly import', role: 'member', read_only: true, expires_at: null },
    wrongBodies: [
      {},
      { name: 'x', role: 'owner' },
      { name: 'x', role: 'member', expires_at: '2020-01-01T00:00:00Z' },
      { name: 'x', role: 'member', directories: [] },
      { name: 'x', role: 'member', directories: ['a', 'b', 'c', 'd', 'e', 7] },
      { name: 'x', role: 'member', read_only: 1 },
    ],
  },
  'DELETE /api/v1/api_keys/:key_id': { role: 'admin', wrongBodies: [] },
};
