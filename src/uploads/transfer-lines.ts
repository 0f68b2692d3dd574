/**
 * The log's lines about transfers: what the history holds, as it happens. What was cut off is worth an `info` line; the
 * rest are `debug`, since there can be thousands a second (`berth transfers --follow` shows them too).
 */
import type { Log } from '../log.ts';
import type { Recorded } from './batch.ts';

export function logTransfers(log: Log, recorded: readonly Recorded[]): void {
  if (!log.isLevelEnabled('info')) return;
  for (const { row, externalId } of recorded) {
    const level = row.event === 'upload-dropped' ? 'info' : 'debug';
    if (!log.isLevelEnabled(level)) continue;
    log[level](
      {
        directory: row.directory_id,
        external_id: externalId,
        username: row.username,
        address: row.address ?? undefined,
        session: row.session_pid ?? undefined,
        path: row.path ?? undefined,
        from: row.from_path ?? undefined,
        bytes: row.bytes ?? undefined,
      },
      row.event,
    );
  }
}
