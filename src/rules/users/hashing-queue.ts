/**
 * The queue for password hashing, which takes half a second and 64 MiB each time.
 *
 * Promises: a flood does not keep out users on a network that they have signed in from before: they have places of their own
 * and go first. Strangers take turns by site (a network, or all networks of one owner), so that many addresses get no more
 * than one. When all places are taken, the oldest request of the site with the most requests is dropped.
 */
import { LRUCache } from 'lru-cache';
import { BerthError } from '../../foundation/base/errors.ts';

const AT_ONCE = 2;
const PLACES = { known: 15, stranger: 30 };
/** After this number, a stranger goes next if one waits. */
const KNOWN_IN_A_ROW = 3;
/** How many networks and sites to remember the last turn of. */
const REMEMBERED_TURNS = 10_000;

/** Where the request with a password comes from. */
export interface Origin {
  /** The network of the address (IPv6: its /64). */
  readonly network: string;
  /** The larger network that one client may own (IPv6: its /48). */
  readonly site: string;
  /** Whether the user has signed in from there before, or is signed in. */
  readonly isKnown: boolean;
}

interface Waiting extends Origin {
  readonly begin: () => void;
  readonly drop: () => void;
}

export type HashingQueue = <T>(origin: Origin, work: () => Promise<T>) => Promise<T>;

/** The returned function throws {BerthError} `rate_limited` when its work is dropped. */
export function createHashingQueue(): HashingQueue {
  const lines: Record<keyof typeof PLACES, Waiting[]> = { known: [], stranger: [] };
  /** The number of the last turn of each network and site. */
  const turns = new LRUCache<string, number>({ max: REMEMBERED_TURNS });
  let turn = 0;
  let atWork = 0;
  let knownInARow = 0;

  const lastTurn = (name: string): number => turns.get(name) ?? 0;
  const comesFirst = (one: Waiting, other: Waiting): number =>
    lastTurn(one.site) - lastTurn(other.site) || lastTurn(one.network) - lastTurn(other.network);

  function next(): void {
    if (atWork >= AT_ONCE) return;
    const isKnownsTurn = lines.known.length > 0 && (knownInARow < KNOWN_IN_A_ROW || lines.stranger.length === 0);
    const line = isKnownsTurn ? lines.known : lines.stranger;
    // Of equals, the one that came first: sorting is stable.
    const [first] = line.toSorted(comesFirst);
    if (!first) return;
    line.splice(line.indexOf(first), 1);
    knownInARow = isKnownsTurn ? knownInARow + 1 : 0;
    turn += 1;
    turns.set(first.site, turn);
    turns.set(first.network, turn);
    atWork += 1;
    first.begin();
  }

  function enter(waiting: Waiting): void {
    const kind = waiting.isKnown ? 'known' : 'stranger';
    const line = lines[kind];
    line.push(waiting);
    next();
    if (line.length <= PLACES[kind]) return;
    const bySite = Map.groupBy(line, ({ site }) => site);
    const [largest = []] = [...bySite.values()].toSorted((one, other) => other.length - one.length);
    const [oldest] = largest;
    if (!oldest) return;
    line.splice(line.indexOf(oldest), 1);
    oldest.drop();
  }

  return async (origin, work) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const drop = (): void =>
      reject(new BerthError('rate_limited', 'Too many people are signing in. Try again in a minute.'));
    enter({ ...origin, begin: resolve, drop });
    await promise;
    try {
      return await work();
    } finally {
      atWork -= 1;
      next();
    }
  };
}
