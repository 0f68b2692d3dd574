/** Decisions as short texts, so that tests can be read. */
import type { Announcement, Decision } from '../../src/uploads/record/decision.ts';
import { UNSEEN } from '../../src/uploads/record/file-stat.ts';

/** `announce a 4`, `put uploaded 4`, `wait sync`, …: one for each effect, in a fixed order. */
export function said(decision: Decision): string[] {
  if ('wait' in decision) return [`wait ${decision.wait}`];
  const { announce, events, put, change, remove, unmatched = [], isLost = false } = decision;
  return [
    ...announce.map((upload) => `announce ${about(upload)}`),
    ...events.map((event) => `${event.event} ${about(event)}`),
    ...(put ? [`put ${put.row.state} ${put.row.size_bytes}${suffix(put)}`] : []),
    ...(change ? [`change ${[change.of.id, change.to.state ?? []].flat().join(' ')}`] : []),
    ...(remove ? [`remove ${remove.id}`] : []),
    ...unmatched.map(({ path, isTold = false }) => `unmatched ${path}${isTold ? ' told' : ''}`),
    ...(isLost ? ['lost'] : []),
  ];
}

function about({ path, bytes, from }: Announcement): string {
  return `${path} ${bytes}${from === undefined ? '' : ` from ${from}`}`;
}

function suffix({ row, id }: { row: { mtime: number; source: string }; id?: string | undefined }): string {
  const parts = [row.mtime === UNSEEN ? ' unseen' : '', row.source === 'disk' ? ' found' : ''];
  return parts.join('') + (id === undefined ? '' : ` as ${id}`);
}
