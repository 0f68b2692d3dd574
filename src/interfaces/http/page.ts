/**
 * `?limit=` and `?after=` of the lists. Without `limit`, a list is complete (the specification has no pages). With it, a `Link`
 * header (RFC 8288) names the next page, if there is one, by the time and the id of the last row, since that row may have gone
 * before the client follows the link: for example an upload that was fetched and removed.
 */
import type { Context } from 'hono';
import * as v from 'valibot';
import type { Micros } from '../../foundation/base/clock.ts';
import { type ListPlace, placeIn, placeText } from '../../foundation/db/lists.ts';
import { checked, INVALID, UUID, wholeNumberText } from '../../foundation/base/validation.ts';
import type { ApiEnv } from '../web/observe.ts';

const MAX_LIMIT = 1000;
const PLACE = new RegExp(`^(?:(\\d{1,16})\\.)?(${UUID.source.slice(1, -1)})$`);

export const PAGE = {
  limit: v.optional(
    v.pipe(wholeNumberText(1, MAX_LIMIT), v.description('At most this many. Without it, all of them.')),
  ),
  after: v.optional(
    v.pipe(
      v.string(),
      v.regex(PLACE, INVALID),
      v.description(
        'The `id` of the last entry of the previous page. The `Link` header puts its time before the `id`, so that the list continues even if that entry has been deleted.',
      ),
    ),
  ),
};

/** Like `PAGE`, for a list that is always paged. */
export const pageOf = (usual: number) => ({
  ...PAGE,
  limit: v.optional(v.pipe(wholeNumberText(1, MAX_LIMIT), v.description(`At most this many. Without it, ${usual}.`))),
});

const Page = v.object(PAGE);

export interface RequestedPage {
  readonly limit: number | undefined;
  /** The list continues after this row, given by its id or its place. */
  readonly after: string | ListPlace | undefined;
}

/** @throws {ValidationError} when `limit` is not a whole number from 1 to 1000, or `after` is not a place. */
export function requestedPage(c: Context<ApiEnv>): RequestedPage {
  const { limit, after } = checked(Page, c.req.query());
  return { limit, after: placeIn(after) ?? after };
}

/**
 * The rows of the page, and the header with the next page. Reads one row more than requested, to see whether there is one.
 * @param timeOf the time by which the list is ordered, before the ids.
 * @param usual the limit for requests without one. Without it, their list is complete.
 */
export async function readPage<Row extends { id: string }>(
  c: Context<ApiEnv>,
  read: (page: RequestedPage) => Promise<Row[]>,
  timeOf: (row: Row) => Micros,
  usual?: number,
): Promise<{ rows: Row[]; headers: Record<string, string> }> {
  const { limit = usual, after } = requestedPage(c);
  const rows = await read({ limit: limit === undefined ? undefined : limit + 1, after });
  const last = limit === undefined ? undefined : rows[limit - 1];
  if (limit === undefined || last === undefined || rows.length <= limit) return { rows, headers: {} };
  rows.length = limit;
  const next = new URL(c.req.url);
  next.searchParams.set('after', placeText({ at: timeOf(last), id: last.id }));
  return { rows, headers: { link: `<${next.pathname}${next.search}>; rel="next"` } };
}
