/** /api/v1/directories/:id/public_keys: lists, adds and removes single keys of a directory. */
import type { AppContext } from '../../web/context.ts';
import { formatMicros } from '../../../foundation/base/clock.ts';
import {
  type Added,
  addPublicKey,
  NewPublicKey,
  publicKeysOf,
  removePublicKey,
  type ShownKey,
} from '../../../rules/directories/public-keys.ts';
import { type Endpoint, ownDirectory, ownTarget, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { data, PublicKey } from '../schemas.ts';
import { refuseUnknown } from '../unknown-names.ts';
import { keyUnused, lockedOut, warning } from '../../web/warnings.ts';

import * as v from 'valibot';

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
