/** What a look means, as a table. `decide-model.test.ts` plays random stories; real sshd tells them in test/sshd. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../src/uploads/record/decide.ts';
import type { Look } from '../../src/uploads/record/decision.ts';
import { unknownInode, UNSEEN } from '../../src/uploads/record/file-stat.ts';
import { said } from '../support/decisions.ts';
import { AFTER, CLOSE, FILE, FOUND, NOTHING, ROW, SESSION, WAITING } from '../support/looks.ts';

const ON_DISK = { stat: FILE, synced: FILE };
const RENAME = { from: 'a.part', by: SESSION, at: 6_000_000 };
const REMOVAL = { by: SESSION, at: 6_000_000 };
const LONGER = { ...FILE, size_bytes: 9 };
const LATER = { ...FILE, mtime: 8_000_000, size_bytes: 9 };

const table: [story: string, look: Partial<Look>, ...expected: string[]][] = [
  ['nothing there, nothing known', {}],

  ['put there by the API', { stat: FILE, isPlaced: true }, 'put placed 4 found'],
  [
    'put there by the API in place of another',
    { stat: FILE, row: { ...ROW, inode: 8 }, isPlaced: true },
    'put placed 4 found',
  ],
  [
    'put there by the API after the file before was removed',
    { stat: FILE, row: { ...ROW, inode: 8 }, removal: REMOVAL, isPlaced: true },
    'removed a 4',
    'put placed 4 found',
  ],
  [
    'put there by the API in place of one that was renamed to here before it was seen',
    { stat: FILE, rename: RENAME, isPlaced: true },
    'put placed 4 found',
    'lost',
  ],
  [
    'put there by the API in the place of an upload before that was seen: both are what they are',
    { stat: FILE, closes: [CLOSE], isPlaced: true },
    'announce a 4',
    'put placed 4 found',
  ],
  [
    'put there by the API, and renamed by the client later',
    { ...ON_DISK, twin: { ...ROW, state: 'placed', path: Buffer.from('b') }, rename: { ...RENAME, from: 'b' } },
    'renamed a 4 from b',
    'change r',
  ],

  ['closed, and not on the disk for certain', { stat: FILE, closes: [CLOSE] }, 'wait sync'],
  ['closed and on the disk', { ...ON_DISK, closes: [CLOSE] }, 'announce a 4', 'put uploaded 4'],
  [
    'closed, and a recorded file has come to its place by a rename that is still to be heard',
    { stat: LATER, twin: { ...ROW, ...LATER, path: Buffer.from('b') }, closes: [CLOSE] },
    'wait barrier',
  ],
  [
    'closed twice before the look: each upload is announced',
    { ...ON_DISK, closes: [{ ...CLOSE, bytes: 2 }, CLOSE] },
    'announce a 2',
    'announce a 4',
    'put uploaded 4',
    'unmatched a told',
  ],
  [
    'another size on the disk than in the log, at the same time: the log is heard first',
    { stat: LONGER, closes: [CLOSE] },
    'wait barrier',
  ],
  [
    'and nobody opened it again: some bytes were written twice, the disk is right',
    { stat: LONGER, synced: LONGER, seen: LONGER, closes: [CLOSE] },
    'announce a 9',
    'put uploaded 9',
  ],
  [
    'and it is being written anew: the log is right, and a scan will find the file changed',
    { stat: LONGER, isReopened: true, closes: [CLOSE] },
    'announce a 4',
    'put uploaded 9 unseen',
    'unmatched a told',
  ],
  [
    'changed after its close',
    { stat: LATER, synced: LATER, closes: [CLOSE] },
    'announce a 4',
    'put uploaded 9 unseen',
    'unmatched a told',
  ],
  [
    'dropped, and written anew since, as the log is still to tell',
    { stat: LATER, closes: [{ ...CLOSE, isComplete: false }] },
    'upload-dropped a 4',
    'put partial 9 unseen',
    'unmatched a',
  ],
  [
    'dropped, and its times were set before',
    { stat: { ...LATER, size_bytes: 4 }, closes: [{ ...CLOSE, isComplete: false }] },
    'upload-dropped a 4',
    'put partial 4',
  ],
  [
    'the connection died',
    { stat: FILE, closes: [{ ...CLOSE, isComplete: false }] },
    'upload-dropped a 4',
    'put partial 4',
  ],
  [
    'the connection died, and nothing had been written over what was there',
    { stat: FILE, row: ROW, closes: [{ ...CLOSE, at: 6_000_000, isComplete: false }] },
  ],
  [
    'a write may have been refused, and the file is longer than what was written',
    { ...ON_DISK, closes: [{ ...CLOSE, bytes: 3, isDoubted: true }], seen: FILE },
    'upload-dropped a 4',
    'put partial 4',
  ],
  [
    'something was refused, and the file is all that was written',
    { ...ON_DISK, closes: [{ ...CLOSE, isDoubted: true }] },
    'announce a 4',
    'put uploaded 4',
  ],
  [
    'other bytes with the size and time of a file that was found on the disk',
    { ...ON_DISK, row: FOUND, closes: [{ ...CLOSE, at: 6_000_000 }] },
    'announce a 4',
    'put uploaded 4',
  ],
  ['a scan found it before its close was heard', { ...ON_DISK, row: FOUND, closes: [CLOSE] }],
  [
    'its row is of a later upload: the earlier one is told by the log alone',
    { ...ON_DISK, row: { ...ROW, uploaded_at: 5_000_200 }, closes: [{ ...CLOSE, bytes: 3 }] },
    'announce a 3',
    'unmatched a told',
  ],

  ['closed, and nothing is there: the log is heard first', { closes: [CLOSE] }, 'wait barrier'],
  [
    'and nothing more was said: the upload is told by the log, and may turn up elsewhere',
    { closes: [CLOSE], seen: null },
    'announce a 4',
    'unmatched a told',
    'lost',
  ],
  ['told already, and still nowhere', { closes: [{ ...CLOSE, isTold: true }], seen: null }, 'unmatched a told', 'lost'],
  ['told already, and now seen', { ...ON_DISK, closes: [{ ...CLOSE, isTold: true }] }, 'put uploaded 4'],
  [
    'another file has its name: it is told by its own evidence',
    { stat: { ...FILE, inode: 8, size_bytes: 5 }, closes: [CLOSE], seen: null },
    'announce a 4',
    'unmatched a told',
    'lost',
  ],

  [
    'closed under a temporary name: it waits for the rename',
    { ...ON_DISK, path: 'a.part', closes: [{ ...CLOSE, path: 'a.part' }] },
    'put waiting 4',
  ],
  [
    'closed under a temporary name by a session that is over',
    { ...ON_DISK, path: 'a.part', closes: [{ ...CLOSE, path: 'a.part', by: { pid: 2, address: '' } }] },
    'announce a.part 4',
    'put uploaded 4',
  ],
  [
    'its session is over',
    { ...ON_DISK, path: 'a.part', row: { ...WAITING, session_pid: 2 }, sessionEnd: { by: SESSION, at: 6_000_000 } },
    'announce a.part 4',
    'change r uploaded',
  ],
  [
    'closed under a temporary name by a session that is over, and another file is there: it is told once, wherever it is',
    { stat: LATER, synced: LATER, path: 'a.part', closes: [{ ...CLOSE, path: 'a.part', by: { pid: 2, address: '' } }] },
    'announce a.part 4',
    'put uploaded 9 unseen',
    'unmatched a.part told',
  ],
  ['its session lives', { ...ON_DISK, path: 'a.part', row: WAITING }],
  [
    'renamed to its final name',
    { ...ON_DISK, twin: WAITING, rename: RENAME },
    'announce a 4 from a.part',
    'change r uploaded',
  ],
  [
    'renamed to its final name, which is not on the disk yet',
    { stat: FILE, twin: WAITING, rename: RENAME },
    'wait sync',
  ],
  [
    'renamed to its final name, and no word of it',
    { ...ON_DISK, twin: WAITING },
    'announce a 4 from a.part',
    'change r uploaded',
  ],
  [
    'renamed from one final name to another',
    { ...ON_DISK, twin: { ...ROW, path: Buffer.from('b') }, rename: { ...RENAME, from: 'b' } },
    'renamed a 4 from b',
    'change r',
  ],
  [
    'renamed onto a recorded file that is still there: the log is heard first, it may have been refused',
    { ...ON_DISK, row: ROW, closes: [AFTER], rename: { ...RENAME, from: 'b' }, isFresh: true },
    'wait barrier',
  ],
  [
    'and the log has nothing to say of it yet',
    { ...ON_DISK, seen: FILE, row: ROW, closes: [AFTER], rename: { ...RENAME, from: 'b' }, isFresh: true },
    'wait rest',
  ],
  [
    'and never will: the upload is announced, and the recorded file keeps its row',
    { ...ON_DISK, seen: FILE, row: ROW, closes: [AFTER], rename: { ...RENAME, from: 'b' } },
    'announce b 4',
    'unmatched b told',
  ],
  [
    'another file with the inode of one that has gone, and no rename: it has to rest',
    { stat: LATER, twin: { ...ROW, path: Buffer.from('b') } },
    'wait rest',
  ],
  ['renamed, and not there yet', { rename: RENAME, isFresh: true }, 'wait rest'],
  ['renamed, and never there', { rename: RENAME }, 'lost'],
  ['renamed after its row had gone', { ...ON_DISK, rename: RENAME, removedRow: ROW }, 'put uploaded 4 as r'],

  ['removed', { row: ROW, removal: REMOVAL }, 'removed a 4', 'remove r'],
  ['removed, and still there', { ...ON_DISK, row: ROW, removal: REMOVAL, isFresh: true }, 'wait rest'],
  ['a removal that was refused', { ...ON_DISK, row: ROW, removal: REMOVAL }],
  [
    'removed, and another file is there',
    { stat: { ...FILE, inode: 8 }, row: ROW, removal: REMOVAL },
    'removed a 4',
    'remove r',
  ],
  ['gone, and no word of it', { row: ROW }, 'wait rest'],
  ['gone for a while', { row: ROW, isGone: true }, 'removed a 4', 'remove r'],

  ['as it is recorded', { ...ON_DISK, row: ROW }],
  ['its times were set', { stat: { ...FILE, mtime: 1_000_000 }, row: ROW, wasSet: true }, 'change r'],
  ['its size was set, or it was opened anew', { stat: LONGER, row: ROW, wasSet: true }, 'wait barrier'],
  ['its size was set, and no open is heard', { stat: LONGER, seen: LONGER, row: ROW, wasSet: true }, 'change r'],
  ['it is written, whatever was set', { stat: LONGER, seen: LONGER, row: ROW, wasSet: true, isReopened: true }],
  ['its jail was copied to another disk', { stat: { ...FILE, inode: 8 }, row: ROW }, 'change r'],
  [
    'its jail was restored, with times in whole seconds',
    {
      stat: { ...FILE, inode: 8, mtime: 5_000_000 },
      row: { ...ROW, inode: unknownInode(5_400_000), mtime: 5_400_000 },
    },
    'change r',
  ],
  [
    'overwritten before its upload was told, and nothing heard since',
    { stat: FILE, row: { ...ROW, mtime: UNSEEN } },
    'wait rest',
  ],

  ['found, and changing', { stat: FILE }, 'wait rest'],
  ['found at rest', { stat: FILE, isRested: true }, 'wait explanation'],
  ['found, and nobody writes it', { stat: FILE, isRested: true, isUnexplained: true }, 'wait sync'],
  [
    'found and on the disk',
    { ...ON_DISK, isRested: true, isUnexplained: true },
    'announce a 4',
    'put uploaded 4 found',
  ],
  [
    'found under a temporary name while a session lives',
    { ...ON_DISK, path: 'a.part', isRested: true, isUnexplained: true },
    'put waiting 4 found',
  ],
  [
    'changed by nobody that is known',
    { stat: LATER, synced: LATER, row: ROW, isRested: true, isUnexplained: true },
    'announce a 9',
    'put uploaded 9 found',
  ],
];

for (const [story, look, ...expected] of table) {
  test(story, () => assert.deepEqual(said(decide({ ...NOTHING, ...look })), expected));
}
