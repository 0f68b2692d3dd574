/**
 * `?limit=` and `?after=` of the lists. Without `limit` a list is whole (the specification knows no pages); with it, a
 * `Link` header (RFC 8288) names the next page while there is one: by the time and the id of the last row, since that row
 * may have gone when somebody follows, as an upload has that was fetched and removed.
 */
import type { Context } from 'hono';
import * as v from 'valibot';
import type { Micros } from '../base/clock.ts';
import { checked, INVALID, wholeNumberText } from '../base/validation.ts';
import type { ApiEnv } from '../web/observe.ts';

const MAX_LIMIT = 1000;
const PLACE = /^(?:(\d{1,16})\.)?([\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12})$/;

export const PAGE = {
  limit: v.optional(v.pipe(wholeNumberText(1, MAX_LIMIT), v.description('How many at most. Without it, all of them.'))),
  after: v.optional(
    v.pipe(
      v.string(),
      v.regex(PLACE, INVALID),
      v.description(
        'The `id` of the last one of the page before. As the `Link` header has it, with its time before it, the list goes on even if that one has gone meanwhile.',
      ),
    ),
  ),
};

/** Like `PAGE`, for a list that is always paged. */
export const pageOf = (usual: number) => ({
  ...PAGE,
  limit: v.optional(v.pipe(wholeNumberText(1, MAX_LIMIT), v.description(`How many at most. Without it, ${usual}.`))),
});

const Page = v.object(PAGE);

/** Where a row stands, or stood, in a list that begins with the newest. */
export interface Place {
  readonly at: Micros;
  readonly id: string;
}

export interface RequestedPage {
  readonly limit: number | undefined;
  /** The row after which to go on, by its id or by its place. */
  readonly after: string | Place | undefined;
}

/** @throws {ValidationError} when `limit` is no whole number from 1 to 1000, or `after` no place. */
export function requestedPage(c: Context<ApiEnv>): RequestedPage {
  const { limit, after } = checked(Page, c.req.query());
  const [, at, id = ''] = PLACE.exec(after ?? '') ?? [];
  return { limit, after: at === undefined ? after : { at: Number(at), id } };
}

/**
 * The rows of the page, and the header that leads on. One row more than asked for tells whether there is more.
 * @param timeOf by what the list is ordered, before the ids.
 * @param usual the limit where none is asked for; the list is whole without it.
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
  next.searchParams.set('after', `${timeOf(last)}.${last.id}`);
  return { rows, headers: { link: `<${next.pathname}${next.search}>; rel="next"` } };
}
