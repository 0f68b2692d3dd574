/** Removes, after a while, files that arrived for directories which then stayed where they were. */
import { readdirSync, renameSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Tables } from '../../db/schema.ts';
import type { Paths } from '../../sftp/paths.ts';
import { isThere } from '../../base/there.ts';

/** How long a move may be interrupted before its files are sent again from the start. The move itself may take days. */
const KEPT_MS = 7 * 24 * 3_600_000;

export interface AbandonedOptions {
  readonly reads: Kysely<Tables>;
  readonly here: string;
  readonly paths: Pick<Paths, 'arriving' | 'trash'>;
}

/** `berth node receive` sets the time of each folder. If a crash leaves one in the trash, the next start removes it. */
export async function removeAbandoned({ reads, here, paths }: AbandonedOptions): Promise<void> {
  if (!isThere(paths.arriving)) return;
  for (const id of readdirSync(paths.arriving)) {
    const folder = join(paths.arriving, id);
    const { mtimeMs = Infinity } = statSync(folder, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs < KEPT_MS) continue;
    const own = await reads
      .selectFrom('directories')
      .select('id')
      .where('id', '=', id)
      .where('node', '=', here)
      .where('deleted_at', 'is', null)
      .executeTakeFirst();
    if (own) continue; // this folder is about to become its jail
    const discarded = join(paths.trash, `abandoned-${id}`);
    renameSync(folder, discarded);
    await rm(discarded, { recursive: true, force: true });
  }
}
