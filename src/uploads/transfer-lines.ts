/** The log's lines about transfers: what the history holds, as it happens. */
import type { Log } from '../log.ts';
import type { Recorded } from './batch.ts';

export function logTransfers(log: Log, recorded: readonly Recorded[]): void {
  if (!log.isLevelEnabled('info')) return;
  for (const { row, externalId } of recorded) {
    log.info(
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
