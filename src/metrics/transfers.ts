/** What SFTP clients do, as far as it went into the history. */
import { Counter, type Registry } from 'prom-client';
import { TRANSFER_EVENTS } from '../db/schema.ts';

export interface ObservedTransfer {
  readonly event: string;
  readonly bytes?: number | null | undefined;
}

export function transferMetrics(registry: Registry): (transfers: readonly ObservedTransfer[]) => void {
  const events = new Counter({
    name: 'berth_transfers_total',
    help: 'Events of SFTP sessions by kind; `uploaded` is one for each webhook event.',
    labelNames: ['event'],
    registers: [registry],
  });
  // A counter that appears with its first event has no increase for alerts to see.
  for (const event of TRANSFER_EVENTS) events.inc({ event }, 0);
  const bytes = {
    uploaded: counter(registry, 'berth_uploaded_bytes_total', 'Sizes of uploaded files together.'),
    downloaded: counter(registry, 'berth_downloaded_bytes_total', 'Bytes read by downloads together.'),
  };
  return (transfers) => {
    for (const transfer of transfers) {
      events.inc({ event: transfer.event });
      if (transfer.event === 'uploaded') bytes.uploaded.inc(transfer.bytes ?? 0);
      else if (transfer.event === 'downloaded') bytes.downloaded.inc(transfer.bytes ?? 0);
    }
  };
}

function counter(registry: Registry, name: string, help: string): Counter {
  return new Counter({ name, help, registers: [registry] });
}
