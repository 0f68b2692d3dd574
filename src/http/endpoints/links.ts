/** /api/v1/directories/:id/links: signed links for people without an SFTP client. */
import * as v from 'valibot';
import { formatMicros } from '../../base/clock.ts';
import type { ChangeOptions } from '../../directories/change.ts';
import type { DirectoryQueries } from '../../directories/view.ts';
import { type MadeLink, makeLink, NewLink, revokeLinks } from '../../links/links.ts';
import type { DirectoryFiles } from '../../files/directory-files.ts';
import { displayName } from '../../uploads/file-path.ts';
import type { Endpoint } from '../access.ts';
import { readFields } from '../body.ts';
import { ownTarget } from '../own-directory.ts';
import { requestedPath } from '../../web/requested-path.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { data, Timestamp } from '../schemas.ts';
import { refuseUnknown } from '../unknown-names.ts';

const LINKS = '/api/v1/directories/:id/links';

const ShownLink = v.pipe(
  v.strictObject({
    url: v.pipe(v.string(), v.url(), v.description('Anybody who has it can use it, without a key. It is not stored.')),
    for: v.picklist(['download', 'upload']),
    path: v.string(),
    max_bytes: v.nullable(v.pipe(v.number(), v.integer(), v.minValue(0))),
    once: v.boolean(),
    expires_at: Timestamp,
  }),
  v.title('Link'),
);

const REQUEST = {
  for: 'upload',
  path: 'in/report.pdf',
  expires_at: '2026-12-01T00:00:00Z',
  max_bytes: 50_000_000,
  once: true,
};

const EXAMPLE = {
  url: 'https://sftp.example.com/links/5c5e2b1c-56a5-4f4d-8d27-3b1f9f3a8d10/in/report.pdf?for=upload&max_bytes=50000000&expires=1796083200&once=1&nonce=Zk3p9QxW1a2b&signature=0Yx3mTq5u7w9zBcDeFgHiJkLmNoPqRsTuVwXyZ01234',
  ...REQUEST,
  expires_at: '2026-12-01T00:00:00.000000Z',
};

/** @param origin where people reach this machine's API. */
export function linkRoutes(
  directories: DirectoryQueries,
  rules: ChangeOptions,
  files: Pick<DirectoryFiles, 'checkHome'>,
  origin: string,
): Route[] {
  const make: Endpoint<'/:id'> = async (c, principal, keep) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    // The link's URL has to name the machine that has the files.
    await files.checkHome(target);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(NewLink.entries, fields);
    const answer = ({ target: own, claims }: MadeLink): Response => {
      const { kind, path, maxBytes = null, once, expiresAt } = claims;
      const shown = { url: origin + own, for: kind, path: displayName(path), max_bytes: maxBytes, once };
      return dataResponse(JSON.stringify({ ...shown, expires_at: formatMicros(expiresAt) }), 201, SECRET);
    };
    return answer(await makeLink(rules, target, fields, requestedPath, keep(answer)));
  };

  const revoke: Endpoint<'/:id'> = async (c, principal) => {
    await revokeLinks(rules, await ownTarget(directories, c, principal, c.req.param('id')));
    return c.body(null, 204);
  };

  return [
    route('POST', LINKS, make, {
      id: 'createLink',
      tag: 'Files',
      summary: 'Make a link to download or upload one file',
      description:
        'A link works without a key and without an SFTP client. A download link sends the file at `path` whenever there is one. ' +
        'An upload link shows a form in a browser, and also accepts the file by `PUT`. The file is an upload like any other. ' +
        'With `once`, an upload link accepts one file and never replaces one. A download link ends once the last byte has been sent; until then, a download can be resumed. ' +
        'Links do not work while the directory is suspended or has expired, and work only from its `allowed_networks`. This is the only time the URL is shown.',
      body: { schema: NewLink, example: REQUEST },
      answer: { status: 201, description: 'The link', schema: data(ShownLink), example: { data: EXAMPLE } },
      refusals: [404, 421, 422, 507],
    }),
    route('DELETE', LINKS, revoke, {
      id: 'revokeLinks',
      tag: 'Files',
      summary: 'Revoke all links of a directory',
      description: 'All links that were made before stop working. New ones can be made.',
      answer: { status: 204, description: 'The links have ended' },
      refusals: [404, 507],
    }),
  ];
}
