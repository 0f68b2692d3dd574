/** The history in words, of rows that a newer or an older version has written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditAction, TransferEvent } from '../../../src/foundation/db/schema.ts';
import { auditSentence, sentenceOf, transferSentence } from '../../../src/rules/history/sentences.ts';

const ROW: Parameters<typeof transferSentence>[0] = {
  at: 5e6,
  event: 'uploaded',
  address: '192.0.2.1',
  session_pid: 7,
  path: 'a.csv',
  from_path: null,
  began_at: null,
  reason: null,
  via: null,
};

test('an event and an action of a newer version are shown by their names', () => {
  assert.equal(
    sentenceOf(transferSentence({ ...ROW, event: 'teleported' as TransferEvent })),
    'Customer (192.0.2.1) teleported a.csv',
  );
  const change = { action: 'freeze' as AuditAction, key_id: 'user:dana@example.com', key_name: null, changes: '{}' };
  assert.equal(sentenceOf(auditSentence(change)), 'dana@example.com freeze');
});

test('a refused request, by its code, and by the text of an earlier version', () => {
  const sentence = (reason: string): string => sentenceOf(transferSentence({ ...ROW, event: 'refused', reason }));
  assert.equal(
    sentence('{"wish":"write","status":"Permission denied","why":{"code":"outside"}}'),
    'Customer (192.0.2.1) could not write a.csv: Permission denied (only what is in /files can be changed)',
  );
  assert.equal(
    sentence('not written (Failure): the disk is full'),
    'Customer (192.0.2.1) was refused a.csv: not written (Failure): the disk is full',
  );
});

test('a part of an upload, with its reason; a session with its length', () => {
  const of = (more: Partial<typeof ROW>): string => sentenceOf(transferSentence({ ...ROW, ...more }));
  const dropped = { event: 'upload-dropped' as const };
  assert.equal(of(dropped), 'Customer (192.0.2.1) lost the connection while uploading a.csv');
  assert.equal(
    of({ ...dropped, reason: 'the disk has lost some of it' }),
    'Customer (192.0.2.1) uploaded a part of a.csv: the disk has lost some of it',
  );
  assert.equal(
    of({ event: 'session-closed', path: null, began_at: 2e6 }),
    'Customer (192.0.2.1) closed the session after 3 s',
  );
});

test('an erased row says nothing about a link that it no longer knows', () => {
  const of = (action: AuditAction, changes: object): string =>
    sentenceOf(
      auditSentence({ action, key_id: 'user:dana@example.com', key_name: null, changes: JSON.stringify(changes) }),
    );
  assert.equal(of('create-link', {}), 'dana@example.com created a link');
  assert.equal(
    of('create-link', { file: { from: '', to: null } }),
    'dana@example.com created a one-time link to the password',
  );
  assert.equal(of('revoke-link', {}), 'dana@example.com revoked links');
  assert.equal(of('revoke-link', { links: { from: 2, to: 0 } }), 'dana@example.com revoked all links');
});
