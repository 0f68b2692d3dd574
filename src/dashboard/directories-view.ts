/** Which page of the directories is shown, as its address has it. */
import * as v from 'valibot';
import { type Listing, type Order, ORDERS, type Place } from './queries/directories.ts';

export const DIRECTORIES = '/dashboard/directories';

/** More than any name and reference that could be found. */
const LONGEST_SEARCH = 300;

/** What the address asks for; what it does not say, and what nobody understands, is as at first. */
export function listingIn({ q = '', sort = '', after, before }: Readonly<Record<string, string>>): Listing {
  const name = sort.replace(/^-/, '');
  return {
    search: q.trim().slice(0, LONGEST_SEARCH),
    order: isOrder(name) ? name : 'created',
    isReversed: isOrder(name) && name !== sort,
    after: placeIn(after),
    before: placeIn(before),
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

/** A column whose heading leads to its order: from that order, the other way round. */
export function columnOf(listing: Listing, order: Order, name: string) {
  const isThis = listing.order === order;
  const address = addressOf({ ...listing, order, isReversed: isThis && !listing.isReversed });
  const isDown = ORDERS[order].isDown !== listing.isReversed;
  const direction = isDown ? ('descending' as const) : ('ascending' as const);
  return { name, address, sorted: isThis ? direction : undefined };
}

const PlaceText = v.tuple([v.union([v.string(), v.number()]), v.string()]);

function placeText({ key, id }: Place): string {
  return Buffer.from(JSON.stringify([key, id])).toString('base64url');
}

function placeIn(text = ''): Place | undefined {
  try {
    const [key, id] = v.parse(PlaceText, JSON.parse(Buffer.from(text, 'base64url').toString()));
    return { key, id };
  } catch {
    return undefined;
  }
}
