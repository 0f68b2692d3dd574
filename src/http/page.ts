/**
 * `?limit=` and `?after=` of the lists. Without `limit` a list is whole (the specification knows no pages); with it, a
 * `Link` header (RFC 8288) names the next page while there is one.
 */
import type { Context } from 'hono';
import * as v from 'valibot';
import { checked, INVALID, wholeNumberText } from '../validation.ts';
import type { ApiEnv } from './observe.ts';

const MAX_LIMIT = 1000;

export const PAGE = {
  limit: v.optional(v.pipe(wholeNumberText(1, MAX_LIMIT), v.description('How many at most. Without it, all of them.'))),
  after: v.optional(v.pipe(v.string(), v.uuid(INVALID), v.description('The `id` of the last one of the page before.'))),
};

/** The same for a list that is never whole. */
export const pageOf = (usual: number) => ({
  ...PAGE,
  limit: v.optional(v.pipe(wholeNumberText(1, MAX_LIMIT), v.description(`How many at most. Without it, ${usual}.`))),
});

const Page = v.object(PAGE);

export interface RequestedPage {
  readonly limit: number | undefined;
  readonly after: string | undefined;
}

/** @throws {ValidationError} when `limit` is no whole number from 1 to 1000. */
export function requestedPage(c: Context<ApiEnv>): RequestedPage {
  const { limit, after } = checked(Page, c.req.query());
  return { limit, after };
}

/**
 * The rows of the page, and the header that leads on. One row more than asked for tells whether there is more.
 * @param usual the limit where none is asked for; the list is whole without it.
 */
export async function readPage<Row extends { id: string }>(
  c: Context<ApiEnv>,
  read: (page: RequestedPage) => Promise<Row[]>,
  usual?: number,
): Promise<{ rows: Row[]; headers: Record<string, string> }> {
  const { limit = usual, after } = requestedPage(c);
  const rows = await read({ limit: limit === undefined ? undefined : limit + 1, after });
  if (limit === undefined || rows.length <= limit) return { rows, headers: {} };
  rows.length = limit;
  const next = new URL(c.req.url);
  next.searchParams.set('after', rows[limit - 1]?.id ?? '');
  return { rows, headers: { link: `<${next.pathname}${next.search}>; rel="next"` } };
}
