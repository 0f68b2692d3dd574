/** Reads the rows of a table page by page, in the order of their ids. */

/**
 * Yields pages until there are no more rows, or until `signal` aborts.
 * @param read returns the rows after an id, the first of them.
 */
export async function* pagesById<R extends { readonly id: string }>(
  read: (after: string) => R[] | Promise<R[]>,
  signal: AbortSignal,
): AsyncGenerator<R[], void> {
  for (let after = ''; !signal.aborted;) {
    const page = await read(after);
    const last = page.at(-1);
    if (!last) return;
    yield page;
    after = last.id;
  }
}
