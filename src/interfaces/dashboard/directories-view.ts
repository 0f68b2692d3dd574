/** The state of the list of directories that the page's URL carries: search, order and place. */
import * as v from 'valibot';
import { type Listing, type Order, ORDERS, type SortedPlace } from '../../rules/directories/view.ts';

export const DIRECTORIES = '/dashboard/directories';
export const IMPORT = `${DIRECTORIES}/import`;

/** The address of a directory's deliveries. */
export const deliveriesOf = (directoryId: string): string => `/dashboard/deliveries?directory=${directoryId}`;

/** In characters; longer than every name and reference. */
const LONGEST_SEARCH = 300;

/** Reads the view from the URL. Missing and unknown values get their defaults. */
export function listingIn({ q = '', sort = '', after, before }: Readonly<Record<string, string>>): Listing {
  const name = sort.replace(/^-/, '');
  const order = isOrder(name) ? name : 'created';
  return {
    search: q.trim().slice(0, LONGEST_SEARCH),
    order,
    isReversed: isOrder(name) && name !== sort,
    after: placeIn(order, after),
    before: placeIn(order, before),
  };
}

const isOrder = (text: string): text is Order => Object.hasOwn(ORDERS, text);

export function sortOf({ order, isReversed }: Listing): string {
  return `${isReversed ? '-' : ''}${order}`;
}

export function addressOf({ after, before, ...listing }: Listing): string {
  const query = new URLSearchParams();
  if (listing.search !== '') query.set('q', listing.search);
  if (sortOf(listing) !== 'created') query.set('sort', sortOf(listing));
  if (after) query.set('after', placeText(after));
  if (before) query.set('before', placeText(before));
  return query.size > 0 ? `${DIRECTORIES}?${query.toString()}` : DIRECTORIES;
}

/** A column whose heading sorts by it, or reverses the order if the list is sorted by it already. */
export function columnOf(listing: Listing, order: Order, name: string) {
  const isThis = listing.order === order;
  const address = addressOf({ ...listing, order, isReversed: isThis && !listing.isReversed });
  const isDown = ORDERS[order].isDown !== listing.isReversed;
  const direction = isDown ? ('descending' as const) : ('ascending' as const);
  return { name, address, sorted: isThis ? direction : undefined };
}

/** The key must have its column's type, since PostgreSQL compares no other with it. */
const PLACE_TEXTS = {
  text: v.tuple([v.string(), v.string()]),
  number: v.tuple([v.pipe(v.number(), v.safeInteger()), v.string()]),
};

function placeText({ key, id }: SortedPlace): string {
  return Buffer.from(JSON.stringify([key, id])).toString('base64url');
}

function placeIn(order: Order, text = ''): SortedPlace | undefined {
  try {
    const [key, id] = v.parse(
      PLACE_TEXTS[order === 'name' ? 'text' : 'number'],
      JSON.parse(Buffer.from(text, 'base64url').toString()),
    );
    return { key, id };
  } catch {
    return undefined;
  }
}
