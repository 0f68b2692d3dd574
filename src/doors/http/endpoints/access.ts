/** /api/v1/directories/:id/access: suspension, expiry and networks. */
import { formatMicros, hasExpired } from '../../../foundation/base/clock.ts';
import { type Access, AccessFields, accessOf, updateAccess } from '../../../rules/directories/access.ts';
import type { RuleContext } from '../../../rules/directories/target.ts';
import type { DirectoryQueries } from '../../../rules/directories/view.ts';
import { type Endpoint, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { ownTarget } from '../own-directory.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { AccessState, data } from '../schemas.ts';
import { refuseUnknown } from '../unknown-names.ts';
import { warning } from '../../web/warnings.ts';

const ACCESS = '/api/v1/directories/:id/access';
const EXAMPLE = {
  suspended: false,
  expires_at: '2027-01-01T00:00:00.000000Z',
  allowed_networks: ['203.0.113.0/24', '2001:db8::/32'],
};

export function accessRoutes(directories: DirectoryQueries, rules: RuleContext): Route[] {
  const show: Endpoint<'/:id'> = async (c, { accountId }) =>
    dataResponse(shown(await accessOf(rules.database.reads, { accountId, id: c.req.param('id') })));

  const update: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal);
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(AccessFields.entries, fields);
    const access = await updateAccess(rules, target, fields);
    const closed = hasExpired(access, rules.clock.now()) ? 'expires_at has passed: nobody can log in' : undefined;
    return dataResponse(shown(access), 200, warning(closed));
  };

  const answer = {
    status: 200,
    description: 'The restrictions',
    schema: data(AccessState),
    example: { data: EXAMPLE },
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
      body: { schema: AccessFields, example: EXAMPLE },
      answer: { ...answer, headers: ['Warning'] },
      refusals: [404, 422, 507],
    }),
  ];
}

function shown({ suspended, expires_at, allowed_networks }: Access): string {
  const until = expires_at === null ? null : formatMicros(expires_at);
  return JSON.stringify({ suspended, expires_at: until, allowed_networks });
}
