/** /api/v1/directories/:id/links: links for people without an SFTP client. */
import { apiOrigin } from '../../../foundation/base/config.ts';
import type { AppContext } from '../../web/context.ts';
import { formatMicros } from '../../../foundation/base/clock.ts';
import {
  type Link,
  linkById,
  linkPath,
  linksOf,
  type MadeLink,
  makeLink,
  NewLink,
  revokeLink,
  revokeLinks,
} from '../../../arrivals/links/links.ts';
import { type Endpoint, ownDirectory, ownTarget } from '../access.ts';
import { readFields } from '../body.ts';
import { pageOf, readPage, type RequestedPage } from '../page.ts';
import { requestedPath } from '../../web/requested-path.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { refuseUnknown, type Route, route } from '../route.ts';
import { data, Timestamp } from '../schemas.ts';
import { wrongField } from '../../../foundation/base/errors.ts';
import * as v from 'valibot';

const LINKS = '/api/v1/directories/:id/links';

/** How many links a list has if the request does not say. */
const LIMIT = 100;

const shape = {
  id: v.pipe(v.string(), v.uuid()),
  for: v.pipe(
    v.picklist(['download', 'upload', 'password']),
    v.description('`password`: the link shows the password once. Only the dashboard creates such links.'),
  ),
  path: v.pipe(v.string(), v.description('Of the file. Ends with `/` for a folder. Empty for a password.')),
  max_bytes: v.nullable(v.pipe(v.number(), v.integer(), v.minValue(0))),
  once: v.boolean(),
  expires_at: Timestamp,
  inserted_at: Timestamp,
};
const ShownLink = v.pipe(v.strictObject(shape), v.title('Link'));
const NewLinkAnswer = v.pipe(
  v.strictObject({
    ...shape,
    url: v.pipe(
      v.string(),
      v.url(),
      v.description('Anyone who has the URL can use it, without a key. Shown only here.'),
    ),
  }),
  v.title('MadeLink'),
);

const REQUEST = {
  for: 'upload',
  path: 'in/report.pdf',
  expires_at: '2026-12-01T00:00:00Z',
  max_bytes: 50_000_000,
  once: true,
};

const EXAMPLE = {
  id: '5c5e2b1c-56a5-4f4d-8d27-3b1f9f3a8d10',
  ...REQUEST,
  expires_at: '2026-12-01T00:00:00.000000Z',
  inserted_at: '2026-11-24T09:21:49.980260Z',
};

const URL_EXAMPLE = 'https://sftp.example.com/links/Zk3p9QxW1a2b0Yx3mTq5u7w9zBcDeFgH/report.pdf';

function linkJson(link: Link) {
  const { id, kind, max_bytes, once, expires_at, inserted_at } = link;
  return {
    id,
    for: kind,
    path: linkPath(link),
    max_bytes,
    once: once === 1,
    expires_at: formatMicros(expires_at),
    inserted_at: formatMicros(inserted_at),
  };
}

/** @param origin where people reach this machine's API. */
export function linkRoutes(context: AppContext): Route[] {
  const { files, config } = context;
  const origin = apiOrigin(config);
  const make: Endpoint<'/:id'> = async (c, principal) => {
    const answer = ({ target: own, link }: MadeLink): Response =>
      dataResponse(JSON.stringify({ ...linkJson(link), url: origin + own }), 201, SECRET);
    const target = await ownTarget(context, c, principal, answer);
    // The link's URL has to name the machine that has the files.
    await files.checkHome(target);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(NewLink.entries, fields);
    return answer(await makeLink(context, target, fields, requestedPath));
  };

  const list: Endpoint<'/:id'> = async (c, principal) => {
    const { reads } = context.database;
    const { id } = await ownDirectory(context, principal, c.req.param('id'));
    const placeOf = async (after: RequestedPage['after']) => {
      if (typeof after !== 'string') return after && { inserted_at: after.at, id: after.id };
      const link = await linkById(reads, id, after);
      if (!link) throw wrongField('after', 'invalid');
      return link;
    };
    const read = async ({ limit = LIMIT, after }: RequestedPage) =>
      linksOf(reads, id, { now: context.clock.now(), limit, after: await placeOf(after) });
    const { rows, headers } = await readPage(c, read, ({ inserted_at }) => inserted_at, LIMIT);
    return dataResponse(JSON.stringify(rows.map(linkJson)), 200, headers);
  };

  const revokeOne: Endpoint<'/:id/:link_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    await revokeLink(context, target, c.req.param('link_id'));
    return c.body(null, 204);
  };

  const revoke: Endpoint<'/:id'> = async (c, principal) => {
    await revokeLinks(context, await ownTarget(context, c, principal));
    return c.body(null, 204);
  };

  return [
    route('GET', LINKS, list, {
      id: 'listLinks',
      tag: 'Files',
      summary: 'List the links of a directory, newest first',
      description:
        'Leaves out links that have expired, been used up or been revoked. URLs are not stored, so they cannot be shown again. At most 100 at a time; the `Link` header has the next page.',
      query: v.object(pageOf(LIMIT)),
      answer: { status: 200, description: 'The links', schema: data(v.array(ShownLink)), example: { data: [EXAMPLE] } },
      refusals: [404, 422],
    }),
    route('POST', LINKS, make, {
      id: 'createLink',
      tag: 'Files',
      summary: 'Create a link to download a file or upload files',
      description:
        'A link works without a key and without an SFTP client. A download link serves the file at `path`, if it exists. ' +
        'An upload link shows a form in a browser, and also accepts the file by `PUT`. The file is an upload like any other. ' +
        'An upload link to a folder accepts files of any name: `PUT` them below its URL. It never replaces a file: if the name is taken, the new file gets a number, such as `scan (2).pdf`. ' +
        'With `once`, an upload link accepts one file and never replaces an existing one. A download link ends once the whole file has been sent, in any ranges; until then, a download can be resumed. ' +
        'Links do not work while the directory is suspended or expired, and only work from its `allowed_networks`. This is the only time the URL is shown.',
      body: { schema: NewLink, example: REQUEST },
      answer: {
        status: 201,
        description: 'The link',
        schema: data(NewLinkAnswer),
        example: { data: { ...EXAMPLE, url: URL_EXAMPLE } },
      },
      refusals: [404, 421, 422, 507],
    }),
    route('DELETE', LINKS, revoke, {
      id: 'revokeLinks',
      tag: 'Files',
      summary: 'Revoke all links of a directory',
      description: 'All existing links stop working. You can create new ones.',
      answer: { status: 204, description: 'Links revoked' },
      refusals: [404, 507],
    }),
    route('DELETE', `${LINKS}/:link_id`, revokeOne, {
      id: 'revokeLink',
      tag: 'Files',
      summary: 'Revoke a link',
      description: 'The link stops working immediately. A download that has begun continues.',
      answer: { status: 204, description: 'Revoked' },
      refusals: [404, 507],
    }),
  ];
}
