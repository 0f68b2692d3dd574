/**
 * The webhook of each listed file: its latest delivery. The first one has the time of the upload, and names the one that was sent
 * again; a new one about the same file is found if it is among the directory's latest. No delivery is searched for further.
 */
import type { Kysely } from 'kysely';
import { type Delivery, DELIVERY_COLUMNS, withAttempts } from './delivery-list.ts';
import type { Micros } from '../../foundation/base/clock.ts';
import type { DeliveryRow, Tables } from '../../foundation/db/schema.ts';

export interface ListedFile {
  readonly id: string;
  readonly uploaded_at: Micros;
}

/** How many of the directory's latest deliveries are read. */
const LATEST = 100;
/** How often a delivery is followed to the one that was sent again. */
const MOST_STEPS = 10;

const COLUMNS = [...DELIVERY_COLUMNS, 'replayed_as'] as const;
type Row = Pick<DeliveryRow, (typeof COLUMNS)[number]>;

/** By the file's id, of those whose webhook is known. */
export async function fileWebhooks(
  reads: Kysely<Tables>,
  directoryId: string,
  files: readonly ListedFile[],
): Promise<Map<string, Delivery>> {
  const ids = files.map(({ id }) => id);
  if (ids.length === 0) return new Map();
  const of = reads.selectFrom('deliveries').select(COLUMNS).where('directory_id', '=', directoryId);
  const times = [...new Set(files.map(({ uploaded_at }) => uploaded_at))];
  const first = await of.where('inserted_at', 'in', times).where('upload_id', 'in', ids).execute();
  const latest = await of.orderBy('inserted_at', 'desc').limit(LATEST).execute();
  const found = new Map<string, Row>();
  const note = (row: Row): void => {
    const before = found.get(row.upload_id ?? '');
    if (row.upload_id !== null && (before === undefined || row.inserted_at > before.inserted_at))
      found.set(row.upload_id, row);
  };
  for (const row of [...first, ...latest]) note(row);
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const next = ids.flatMap((id) => found.get(id)?.replayed_as ?? []);
    if (next.length === 0) break;
    for (const row of await of.where('id', 'in', next).execute()) note(row);
  }
  const deliveries = await withAttempts(
    reads,
    ids.flatMap((id) => found.get(id) ?? []),
  );
  return new Map(deliveries.map((delivery) => [delivery.upload_id ?? '', delivery]));
}
