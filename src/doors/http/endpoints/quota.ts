/** /api/v1/directories/:id/quota */
import * as v from 'valibot';
import { type Quota, QuotaFields, quotaOf, setQuota } from '../../../rules/directories/quota.ts';
import type { RuleContext } from '../../../rules/directories/target.ts';
import type { DirectoryQueries } from '../../../rules/directories/view.ts';
import { type Endpoint, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { ownTarget } from '../own-directory.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { Count, data } from '../schemas.ts';
import { refuseUnknown } from '../unknown-names.ts';

const Answer = data(v.strictObject({ max_bytes: v.nullable(Count), used_bytes: Count }));
const EXAMPLE = { max_bytes: 10_000_000_000, used_bytes: 48_211 };

const shown = (quota: Quota): Response => dataResponse(JSON.stringify(quota));

export function quotaRoutes(directories: DirectoryQueries, rules: RuleContext): Route[] {
  const show: Endpoint<'/:id'> = async (c, principal) =>
    shown(await quotaOf(rules, { accountId: principal.accountId, id: c.req.param('id') }));

  const set: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal);
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(QuotaFields.entries, fields);
    return shown(await setQuota(rules, target, fields));
  };

  const answer = {
    status: 200,
    description: 'The quota',
    schema: Answer,
    example: { data: EXAMPLE },
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
      body: { schema: QuotaFields, example: { max_bytes: EXAMPLE.max_bytes } },
      answer,
      refusals: [404, 409, 507],
    }),
  ];
}
