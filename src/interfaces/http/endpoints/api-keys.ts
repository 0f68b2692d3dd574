/** /api/v1/api_keys: lets programs create and revoke keys for other programs. */
import type { AppContext } from '../../web/context.ts';
import {
  type ApiKey,
  createKey,
  findKey,
  type IssuedKey,
  newestKeys,
  NewKey,
  revokeKey,
  ROLES,
} from '../../../rules/api-keys/api-keys.ts';
import { formatMicros } from '../../../foundation/base/clock.ts';
import { wrongField } from '../../../foundation/base/errors.ts';
import { accountTarget, type Endpoint, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { pageOf, readPage, type RequestedPage } from '../page.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { refuseUnknown, type Route, route } from '../route.ts';
import { data, Timestamp } from '../schemas.ts';
import * as v from 'valibot';

const KEYS = '/api/v1/api_keys';
const LIMIT = 100;

const shape = {
  id: v.pipe(v.string(), v.uuid()),
  name: v.string(),
  role: v.picklist(ROLES),
  read_only: v.boolean(),
  directories: v.pipe(
    v.nullable(v.array(v.pipe(v.string(), v.uuid()))),
    v.description('The directories that the key is limited to; `null` for all of them.'),
  ),
  expires_at: v.nullable(Timestamp),
  inserted_at: Timestamp,
  last_used_at: v.pipe(v.nullable(Timestamp), v.description('Updated within 30 seconds.')),
  revoked_at: v.nullable(Timestamp),
};
const Shown = v.pipe(v.strictObject(shape), v.title('ApiKey'));
const Issued = v.pipe(
  v.strictObject({ ...shape, key: v.pipe(v.string(), v.description('Shown only here.')) }),
  v.title('IssuedApiKey'),
);

const EXAMPLE = {
  id: '5e9a7a52-2f5f-4a52-9d51-0b1f0a5d8c3e',
  name: 'nightly import',
  role: 'member',
  read_only: true,
  directories: ['18db3dc8-bfa8-4427-9a27-af3b079ff5b8'],
  expires_at: '2027-01-01T00:00:00.000000Z',
  inserted_at: '2026-11-22T09:21:49.980260Z',
  last_used_at: null,
  revoked_at: null,
};

export function apiKeyRoutes(context: AppContext): Route[] {
  const list: Endpoint = async (c, principal) => {
    requireAdmin(principal);
    const { reads } = context.database;
    const read = async ({ limit = LIMIT, after }: RequestedPage) =>
      newestKeys(reads, principal.accountId, { limit, after: await placeOf(after) });
    const placeOf = async (after: RequestedPage['after']) => {
      if (typeof after !== 'string') return after && { inserted_at: after.at, id: after.id };
      const key = await findKey(reads, principal.accountId, after);
      if (!key) throw wrongField('after', 'invalid');
      return key;
    };
    const { rows, headers } = await readPage(c, read, ({ inserted_at }) => inserted_at, LIMIT);
    return dataResponse(JSON.stringify(rows.map(keyJson)), 200, headers);
  };

  const create: Endpoint = async (c, principal) => {
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(NewKey.entries, fields);
    return issued(await createKey(context, accountTarget(c, principal, issued), fields));
  };

  const revoke: Endpoint<'/:key_id'> = async (c, principal) => {
    requireAdmin(principal);
    await revokeKey(context, accountTarget(c, principal), c.req.param('key_id'));
    return c.body(null, 204);
  };

  return [
    route('GET', KEYS, list, {
      id: 'listApiKeys',
      tag: 'Keys',
      summary: 'List the API keys of the account, newest first',
      description: 'Includes revoked and expired keys. At most 100 at a time; the `Link` header has the next page.',
      role: 'admin',
      query: v.object(pageOf(LIMIT)),
      answer: { status: 200, description: 'The keys', schema: data(v.array(Shown)), example: { data: [EXAMPLE] } },
      refusals: [422],
    }),
    route('POST', KEYS, create, {
      id: 'createApiKey',
      tag: 'Keys',
      summary: 'Create an API key',
      description:
        "This is the only time that `key` is shown. A key's limits cannot be changed: create another key instead. " +
        'A `read_only` key gets 403 for everything except GET and HEAD. ' +
        "A key with `directories` sees only these: requests for other directories get 404, and lists of directories and events leave them out. It gets 403 for operations on the account: creating directories, the account's webhook, and keys.",
      role: 'admin',
      body: {
        schema: NewKey,
        example: {
          name: EXAMPLE.name,
          role: EXAMPLE.role,
          expires_at: EXAMPLE.expires_at,
          read_only: true,
          directories: EXAMPLE.directories,
        },
      },
      answer: {
        status: 201,
        description: 'The key',
        schema: data(Issued),
        example: { data: { ...EXAMPLE, key: 'svc_live_GvUDL2cBIUmKmNhK5vJmyPyD4pbbCJMo2L2c8p' } },
      },
      refusals: [507],
    }),
    route('DELETE', `${KEYS}/:key_id`, revoke, {
      id: 'revokeApiKey',
      tag: 'Keys',
      summary: 'Revoke an API key',
      description:
        'The key is refused from the next request on, and cannot be restored. Requests already running with this key fail, too. A key can revoke itself. Revoking a key again changes nothing. 409 if this is the last key that can create others and the dashboard has no admin.',
      role: 'admin',
      answer: { status: 204, description: 'Revoked' },
      refusals: [404, 409, 507],
    }),
  ];
}

function keyJson({
  id,
  name,
  role,
  read_only,
  directories,
  expires_at,
  inserted_at,
  last_used_at,
  revoked_at,
}: ApiKey) {
  const time = (at: number | null): string | null => (at === null ? null : formatMicros(at));
  return {
    id,
    name,
    role,
    read_only: read_only === 1,
    directories: directories === null ? null : (JSON.parse(directories) as string[]),
    expires_at: time(expires_at),
    inserted_at: formatMicros(inserted_at),
    last_used_at: time(last_used_at),
    revoked_at: time(revoked_at),
  };
}

/** The only response with the key. */
function issued(key: IssuedKey): Response {
  return dataResponse(JSON.stringify({ ...keyJson(key), key: key.key }), 201, SECRET);
}
