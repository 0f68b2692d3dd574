/** A file, what the log and the rows say of it, and a look that knows nothing: tests change what they are about. */
import type { Look, Recorded } from '../../src/uploads/record/decision.ts';
import type { Close } from '../../src/uploads/record/evidence.ts';

export const SESSION = { pid: 1, address: '192.0.2.1' };
export const FILE = { inode: 7, mtime: 5_000_000, size_bytes: 4 };
export const CLOSE: Close = {
  isComplete: true,
  path: 'a',
  at: 5_000_100,
  by: SESSION,
  openedAt: 4_999_000,
  bytes: 4,
  isDoubted: false,
  inode: 7,
  order: 1,
};
export const ROW: Recorded = {
  ...FILE,
  id: 'r',
  path: Buffer.from('a'),
  state: 'uploaded',
  uploaded_at: 5_000_100,
  source: 'log',
  session_pid: null,
};
/** Another file's, of the same size, whose inode was not seen. */
export const AFTER: Close = { ...CLOSE, path: 'b', at: 5_900_000, inode: undefined };
export const WAITING: Recorded = { ...ROW, path: Buffer.from('a.part'), state: 'waiting', session_pid: 1 };
export const FOUND: Recorded = { ...ROW, source: 'disk', uploaded_at: 5_100_000 };

/** Nothing is known, session 1 is live, and names in `.part` are temporary. */
export const NOTHING: Look = {
  path: 'a',
  now: 9_000_000,
  stat: undefined,
  row: undefined,
  twin: undefined,
  removedRow: undefined,
  isPlaced: false,
  closes: [],
  rename: undefined,
  removal: undefined,
  sessionEnd: undefined,
  isFresh: false,
  isReopened: false,
  wasSet: false,
  seen: undefined,
  synced: undefined,
  isRested: false,
  isGone: false,
  isUnexplained: false,
  isDoubted: false,
  isTemporary: (path) => path.endsWith('.part'),
  livePids: [1],
};
