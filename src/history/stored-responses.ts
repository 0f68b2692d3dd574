/**
 * Answers that are kept for an Idempotency-Key, for 24 hours. Each is encrypted by secrets that its API key and its
 * Idempotency-Key give together (HKDF, RFC 5869; AES-256-GCM): the database alone opens none, and does not even tell
 * what was asked.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { type Kysely, sql, type Transaction } from 'kysely';
import { DAY, type Micros } from '../base/clock.ts';
import { compiled } from '../db/compiled.ts';
import type { KeptAnswersTable, Tables } from '../db/schema.ts';
import { BerthError } from '../base/errors.ts';

/** How long an answer is given again. */
export const ANSWER_LIFE: Micros = DAY;

/** The most that is kept for an account: a day of answers of 1.5 KB at the default rate limit. */
const MOST_BYTES = 2 ** 28;

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Stores the answer to a request in the transaction of its change. */
export interface StoredResponse<Result> {
  keep(tx: Transaction<Tables>, result: Result): Promise<void>;
  /** For a change that is undone: from now on the answer is given to nobody; what is returned removes it. */
  withdraw(): Removal;
}

export type Removal = (tx: Transaction<Tables>) => Promise<void>;

/** Where the answer to one request is kept, and what opens it. */
export interface Place {
  readonly id: string;
  /** Tells this request from others with the same Idempotency-Key. */
  readonly request: string;
  seal(text: string): Buffer;
  /** @throws when it is not what was sealed for this request. */
  open(sealed: Buffer): string;
}

/** @param request whatever tells it from others, in any number of parts. */
export function placeOf(apiKey: string, idempotencyKey: string, request: readonly (string | Buffer)[]): Place {
  const secrets = Buffer.from(hkdfSync('sha256', apiKey, 'berth kept answer', idempotencyKey, 96));
  const [key, macKey, id] = [secrets.subarray(0, 32), secrets.subarray(32, 64), secrets.toString('hex', 64)];
  const mac = createHmac('sha256', macKey);
  for (const part of request) mac.update(`${Buffer.byteLength(part)}:`).update(part);
  const digest = mac.digest('hex');
  const context = Buffer.from(id + digest);
  return {
    id,
    request: digest,
    seal(text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, key, nonce).setAAD(context);
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
    },
    open(sealed) {
      const nonce = sealed.subarray(0, NONCE_BYTES);
      const rest = sealed.subarray(NONCE_BYTES);
      const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(context).setAuthTag(rest.subarray(0, TAG_BYTES));
      return decipher.update(rest.subarray(TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
    },
  };
}

const byId = compiled<{ id: string }>()((db, p) => db.selectFrom('kept_answers').selectAll().where('id', '=', p('id')));

/** The row that is kept there, however old. */
export function keptAt(reads: Kysely<Tables>, { id }: Pick<Place, 'id'>): Promise<KeptAnswersTable | undefined> {
  return byId.first(reads, { id });
}

/**
 * @param replaced the row that is there, when it is too old.
 * @returns false when there is another one meanwhile, which stays.
 */
export async function insertKept(
  tx: Transaction<Tables>,
  row: KeptAnswersTable,
  replaced?: KeptAnswersTable,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('kept_answers')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .column('id')
        .doUpdateSet(row)
        .where('kept_answers.inserted_at', '=', replaced?.inserted_at ?? -1),
    )
    .executeTakeFirstOrThrow();
  if (numInsertedOrUpdatedRows !== 1n) return false;
  await addToTotal(tx, row.account_id, row.answer.length - (replaced?.answer.length ?? 0));
  return true;
}

export function removalOf({ id }: Pick<Place, 'id'>): Removal {
  return async (tx) => {
    const removed = tx.deleteFrom('kept_answers').where('id', '=', id).returning(['account_id', 'answer']);
    const row = await removed.executeTakeFirst();
    if (row) await addToTotal(tx, row.account_id, -row.answer.length);
  };
}

/** Before anything is done: an answer that cannot be kept would break the promise that nothing is done twice. */
export async function requireRoom(reads: Kysely<Tables>, accountId: string): Promise<void> {
  const total = await totalOf.first(reads, { accountId });
  if (!total || total.bytes < MOST_BYTES) return;
  throw new BerthError(
    'rate_limited',
    `Over ${MOST_BYTES / 2 ** 20} MiB of answers are kept for the Idempotency-Keys of your account. Each is kept for 24 hours: try again later, or without the header.`,
  );
}

const totalOf = compiled<{ accountId: string }>()((db, p) =>
  db.selectFrom('kept_answer_totals').select('bytes').where('account_id', '=', p('accountId')),
);

async function addToTotal(tx: Transaction<Tables>, accountId: string, bytes: number): Promise<void> {
  await tx
    .insertInto('kept_answer_totals')
    .values({ account_id: accountId, bytes })
    .onConflict((conflict) =>
      conflict.column('account_id').doUpdateSet({ bytes: sql`kept_answer_totals.bytes + ${bytes}` }),
    )
    .execute();
}

/** After old answers were removed. */
export async function recountKept(db: Kysely<Tables>): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await tx.deleteFrom('kept_answer_totals').execute();
    await sql`
      insert into kept_answer_totals (account_id, bytes)
      select account_id, sum(length(answer)) from kept_answers group by account_id`.execute(tx);
  });
}
