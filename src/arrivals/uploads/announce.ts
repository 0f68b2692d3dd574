/** Announces a file again, or for the first time when its directory had no webhook URL at the upload. */
import { lockedDirectory, type Target } from '../../rules/directories/target.ts';
import { insertAudit } from '../../rules/history/audit.ts';
import { type Delivery, deliveryOf } from '../../deliveries/webhooks/delivery-list.ts';
import { deliveryFor, enqueueDue } from '../../deliveries/webhooks/outbox.ts';
import { receiverOf, type WebhookRules } from '../../deliveries/webhooks/receiver-of.ts';
import { displayName } from './file-path.ts';
import { uploadOf } from './upload-list.ts';

/**
 * Announces an upload under the name that the file has now, since it may have been renamed.
 * @throws {BerthError} `directory_not_found`, `upload_not_found`; {ValidationError} when the directory has no webhook
 * URL.
 */
export async function announce(
  { database, clock, wake }: WebhookRules,
  target: Target<Delivery>,
  uploadId: string,
): Promise<Delivery> {
  const delivery = await database.db.transaction().execute(async (tx) => {
    const directory = await lockedDirectory(tx, target);
    const { path, size_bytes: sizeBytes, uploaded_at: uploadedAt } = await uploadOf(tx, directory.id, uploadId);
    const now = clock.now();
    const event = { directory, uploadId, filename: displayName(path), sizeBytes, uploadedAt };
    const row = await enqueueDue(tx, deliveryFor(event, (await receiverOf(tx, directory)).url, now), clock);
    const details = { upload_id: { from: null, to: uploadId }, delivery_id: { from: null, to: row.id } };
    await insertAudit(tx, target, { action: 'announce', at: now, directory, details });
    const shown = deliveryOf(row);
    await target.actor?.response?.keep(tx, shown);
    return shown;
  });
  wake();
  return delivery;
}
