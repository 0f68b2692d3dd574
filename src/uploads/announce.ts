/** Announces a file again, or for the first time when its directory had no webhook URL at the upload. */
import { verifyAsker } from '../accounts/asker.ts';
import { liveDirectory, type Target } from '../directories/target.ts';
import { insertAudit } from '../history/audit.ts';
import type { KeptAnswer } from '../history/kept-answers.ts';
import { type Delivery, deliveryOf } from '../webhooks/delivery-list.ts';
import { deliveryFor, enqueueDue } from '../webhooks/outbox.ts';
import { receiverOf, type WebhookRules } from '../webhooks/receiver-of.ts';
import { displayName } from './file-path.ts';
import { uploadOf } from './upload-list.ts';

/**
 * With what is known of the file now: it may have been renamed since.
 * @throws {BerthError} `directory_not_found`, `upload_not_found`; {ValidationError} when the directory has no webhook URL.
 */
export async function announce(
  { database, clock, wake }: WebhookRules,
  target: Target,
  uploadId: string,
  answer?: KeptAnswer<Delivery>,
): Promise<Delivery> {
  const delivery = await database.db.transaction().execute(async (tx) => {
    await verifyAsker(tx, target.asker);
    const directory = await liveDirectory(tx, target);
    const { path, size_bytes: sizeBytes, uploaded_at: uploadedAt } = await uploadOf(tx, directory.id, uploadId);
    const now = clock.now();
    const event = { directory, uploadId, filename: displayName(path), sizeBytes, uploadedAt };
    const row = await enqueueDue(tx, deliveryFor(event, (await receiverOf(tx, directory)).url, now), clock);
    const details = { upload_id: { from: null, to: uploadId }, delivery_id: { from: null, to: row.id } };
    if (target.asker) await insertAudit(tx, target.asker, { action: 'announce', at: now, directory, details });
    const shown = deliveryOf(row);
    await answer?.keep(tx, shown);
    return shown;
  });
  wake();
  return delivery;
}
