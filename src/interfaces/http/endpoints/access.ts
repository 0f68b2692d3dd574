/** The endpoints for logins to a directory (access settings, password, public keys), and for its quota. */
import * as v from 'valibot';
import type { AppContext } from '../../web/context.ts';
import { formatMicros, hasExpired } from '../../../foundation/base/clock.ts';
import {
  type Access,
  AccessFields,
  accessOf,
  type Quota,
  QuotaFields,
  quotaOf,
  type Renewed,
  renewPassword,
  setQuota,
  updateAccess,
} from '../../../rules/directories/update.ts';
import { type Endpoint, ownDirectory, ownTarget, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { refuseUnknown, type Route, route } from '../route.ts';
import { AccessState, Count, CreatedDirectory, data, PublicKey } from '../schemas.ts';
import { keyUnused, lockedOut, passwordUnused, warning } from '../../web/warnings.ts';
import { fullDirectory } from './directories.ts';
import { CREATED } from '../openapi/examples.ts';
import {
  type Added,
  addPublicKey,
  NewPublicKey,
  publicKeysOf,
  removePublicKey,
  type ShownKey,
} from '../../../rules/directories/public-keys.ts';

const ACCESS = '/api/v1/directories/:id/access';
const ACCESS_EXAMPLE = {
  suspended: false,
  expires_at: '2027-01-01T00:00:00.000000Z',
  allowed_networks: ['203.0.113.0/24', '2001:db8::/32'],
};

export function accessRoutes(context: AppContext): Route[] {
  const show: Endpoint<'/:id'> = async (c, { accountId }) =>
    dataResponse(accessJson(await accessOf(context.database.reads, { accountId, id: c.req.param('id') })));

  const update: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(AccessFields.entries, fields);
    const access = await updateAccess(context, target, fields);
    const closed = hasExpired(access, context.clock.now()) ? 'expires_at has passed: nobody can log in' : undefined;
    return dataResponse(accessJson(access), 200, warning(closed));
  };

  const answer = {
    status: 200,
    description: 'The restrictions',
    schema: data(AccessState),
    example: { data: ACCESS_EXAMPLE },
  };
  return [
    route('GET', ACCESS, show, {
      id: 'getAccess',
      tag: 'Access',
      summary: "Show a directory's login restrictions",
      answer,
      refusals: [404],
    }),
    route('PATCH', ACCESS, update, {
      id: 'updateAccess',
      tag: 'Access',
      summary: 'Suspend or resume logins, set an expiry, or restrict networks',
      description:
        'Changes the given fields. They apply from the next login on. ' +
        '`suspended`: logins are refused, and all live sessions end before the response is sent. Files, lists of uploads, webhooks and retention are not affected. After `false`, the user can log in again as `auth_mode` allows. ' +
        '`expires_at`: logins are refused from then on, and live sessions end within a second. A later time, or `null`, allows logins again. ' +
        '`allowed_networks`: at most 100. Live sessions continue. A single address counts as a network of one address, `::ffff:a.b.c.d` counts as its IPv4 address, and an IPv6 network contains no IPv4 addresses.',
      role: 'admin',
      body: { schema: AccessFields, example: ACCESS_EXAMPLE },
      answer: { ...answer, headers: ['Warning'] },
      refusals: [404, 422, 507],
    }),
  ];
}

function accessJson({ suspended, expires_at, allowed_networks }: Access): string {
  const until = expires_at === null ? null : formatMicros(expires_at);
  return JSON.stringify({ suspended, expires_at: until, allowed_networks });
}

export function passwordRoutes(context: AppContext): Route[] {
  const renew: Endpoint<'/:id'> = async (c, principal) => {
    const answer = ({ directory, password }: Renewed): Response =>
      dataResponse(fullDirectory(directory, password), 200, {
        // The only response with this password.
        ...SECRET,
        ...warning(passwordUnused(directory)),
      });
    const target = await ownTarget(context, c, principal, answer);
    requireAdmin(principal);
    return answer(await renewPassword(context, target));
  };

  return [
    route('POST', '/api/v1/directories/:id/password', renew, {
      id: 'renewPassword',
      tag: 'Access',
      summary: 'Replace the password',
      description:
        'The new password is shown only in this response, which has the same form as the response to a create. Use this if that response was lost. ' +
        'From the next login on, only the new password works. Live sessions continue. ' +
        'While `auth_mode` is `public_key`, no password works: the new one is stored for when the mode changes, and a `Warning` header says so.',
      role: 'admin',
      answer: {
        status: 200,
        description: 'The directory with its new password',
        schema: data(CreatedDirectory),
        example: CREATED,
        headers: ['Warning'],
      },
      refusals: [404, 507],
    }),
  ];
}

const QuotaAnswer = data(v.strictObject({ max_bytes: v.nullable(Count), used_bytes: Count }));
const QUOTA_EXAMPLE = { max_bytes: 10_000_000_000, used_bytes: 48_211 };

const quotaResponse = (quota: Quota): Response => dataResponse(JSON.stringify(quota));

export function quotaRoutes(context: AppContext): Route[] {
  const show: Endpoint<'/:id'> = async (c, principal) =>
    quotaResponse(await quotaOf(context, { accountId: principal.accountId, id: c.req.param('id') }));

  const set: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(QuotaFields.entries, fields);
    return quotaResponse(await setQuota(context, target, fields));
  };

  const answer = {
    status: 200,
    description: 'The quota',
    schema: QuotaAnswer,
    example: { data: QUOTA_EXAMPLE },
  };
  return [
    route('GET', '/api/v1/directories/:id/quota', show, {
      id: 'getQuota',
      tag: 'Access',
      summary: "Show a directory's quota and usage",
      description:
        '`max_bytes` is `null` without a limit. `used_bytes` is the size of all recorded files, like `storage_bytes`.',
      answer,
      refusals: [404],
    }),
    route('PUT', '/api/v1/directories/:id/quota', set, {
      id: 'setQuota',
      tag: 'Access',
      summary: "Set a directory's quota",
      description:
        "Takes effect before the response is sent, also for live sessions: a write above the limit fails in the SFTP client. The kernel enforces the limit in blocks of the file system, and also counts folders and files that are being written. 409 if user quotas are off on the server's disk: `error` says how to turn them on.",
      role: 'admin',
      body: { schema: QuotaFields, example: { max_bytes: QUOTA_EXAMPLE.max_bytes } },
      answer,
      refusals: [404, 409, 507],
    }),
  ];
}

// /api/v1/directories/:id/public_keys: lists, adds and removes single keys of a directory.

const KEYS = '/api/v1/directories/:id/public_keys';
const EXAMPLE = {
  fingerprint: 'SHA256:5/6Zb1YNfdIT1nzAiTMQTUmhvgvI2wzzUfqvyYOxgEk',
  type: 'ssh-ed25519',
  comment: 'backup@acme',
  inserted_at: '2026-11-20T20:50:00.123456Z',
  last_used_at: '2026-11-21T03:00:02.654321Z',
};

export function publicKeyRoutes(context: AppContext): Route[] {
  const list: Endpoint<'/:id'> = async (c, principal) => {
    const { id } = await ownDirectory(context, principal, c.req.param('id'));
    return dataResponse(JSON.stringify((await publicKeysOf(context.database.reads, id)).map(publicKeyJson)));
  };

  const add: Endpoint<'/:id'> = async (c, principal) => {
    const answer = ({ directory, key }: Added): Response =>
      dataResponse(JSON.stringify(publicKeyJson(key)), 201, warning(keyUnused(directory)));
    const target = await ownTarget(context, c, principal, answer);
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(NewPublicKey.entries, fields);
    return answer(await addPublicKey(context, target, fields));
  };

  const remove: Endpoint<'/:id/:fingerprint'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    requireAdmin(principal);
    const directory = await removePublicKey(context, target, fingerprintIn(c.req.param('fingerprint')));
    return c.body(null, 204, warning(lockedOut(directory)));
  };

  return [
    route('GET', KEYS, list, {
      id: 'listPublicKeys',
      tag: 'Access',
      summary: "List a directory's public keys, newest first",
      description:
        '`last_used_at` is the time of the last login with the key, updated within 30 seconds; `null` if none is known. With `auth_mode` `both`, this may include a key that the client offered before it logged in by password.',
      answer: {
        status: 200,
        description: 'The keys',
        schema: data(v.array(PublicKey)),
        example: { data: [EXAMPLE] },
      },
      refusals: [404],
    }),
    route('POST', KEYS, add, {
      id: 'addPublicKey',
      tag: 'Access',
      summary: 'Add a public key',
      description:
        'The key works from the next login on, and so do the existing keys. To replace a key, add the new one, wait until the customer uses it, then delete the old one. ' +
        'A directory has at most 100 keys. To replace all keys with one, PATCH the directory with `public_key`. ' +
        'While `auth_mode` is `password`, keys are not used, and a `Warning` header says so.',
      role: 'admin',
      body: {
        schema: NewPublicKey,
        example: {
          public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH+BWzl2Ru6wmV10+35WnEGK45Sp1y1IIz3rpdICSSiN backup@acme',
        },
      },
      answer: {
        status: 201,
        description: 'The key',
        schema: data(PublicKey),
        example: { data: { ...EXAMPLE, last_used_at: null } },
        headers: ['Warning'],
      },
      refusals: [404, 422, 507],
    }),
    route('DELETE', `${KEYS}/:fingerprint{.+}`, remove, {
      id: 'removePublicKey',
      tag: 'Access',
      summary: 'Remove one public key',
      description:
        'Logins with this key are refused from then on. Live sessions continue, and `auth_mode` stays the same. ' +
        'Percent-encode the fingerprint, like any part of a path (`SHA256%3A5%2F6Z…`). You may also leave out `SHA256:`, and write `-` and `_` instead of `+` and `/`. If `auth_mode` is `public_key` and no key is left, logins are refused, and a `Warning` header says so.',
      role: 'admin',
      answer: { status: 204, description: 'Deleted', headers: ['Warning'] },
      refusals: [404, 507],
    }),
  ];
}

function publicKeyJson({ fingerprint, type, comment, inserted_at, last_used_at }: ShownKey): object {
  return {
    fingerprint,
    type,
    comment,
    inserted_at: formatMicros(inserted_at),
    last_used_at: last_used_at === null ? null : formatMicros(last_used_at),
  };
}

/** The stored form of a fingerprint. The other form is for proxies, some of which decode `%2F`, while others refuse it. */
function fingerprintIn(path: string): string {
  return `SHA256:${path
    .replace(/^SHA256:/, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/')}`;
}
