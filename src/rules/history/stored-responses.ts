/**
 * Stored responses to requests with an Idempotency-Key, kept for 24 hours. Each is encrypted (AES-256-GCM) with secrets that
 * are derived from the API key and the Idempotency-Key together (HKDF, RFC 5869): the database alone reveals neither a
 * response nor its request.
 */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { type Kysely, sql, type Transaction } from 'kysely';
import { decrypt, encrypt } from '../../foundation/base/encrypt.ts';
import { hashToken } from '../../foundation/base/hashes.ts';
import { type Clock, DAY, type Micros } from '../../foundation/base/clock.ts';
import { compiled } from '../../foundation/db/compiled.ts';
import type { KeptAnswersTable, Tables } from '../../foundation/db/schema.ts';
import { BerthError } from '../../foundation/base/errors.ts';
import type { Removal, StoredResponse } from '../accounts/actor.ts';

/** How long a request can be repeated for its stored response. */
export const ANSWER_LIFE: Micros = DAY;

/** How much may be stored for an account: a day of responses of 1.5 KB at the default rate limit. */
const MOST_BYTES = 2 ** 28;

/** Where the response to one request is stored, and how it is encrypted. */
export interface ResponsePlace {
  readonly id: string;
  /** Distinguishes this request from others with the same Idempotency-Key. */
  readonly request: string;
  seal(text: string): Buffer;
  /** @throws when `sealed` was not sealed for this request. */
  open(sealed: Buffer): string;
}

/** @param request everything that distinguishes it from other requests, in any number of parts. */
export function placeOf(apiKey: string, idempotencyKey: string, request: readonly (string | Buffer)[]): ResponsePlace {
  const secrets = Buffer.from(hkdfSync('sha256', apiKey, 'berth kept answer', idempotencyKey, 96));
  const key = secrets.subarray(0, 32);
  const macKey = secrets.subarray(32, 64);
  const id = secrets.toString('hex', 64);
  const mac = createHmac('sha256', macKey);
  for (const part of request) mac.update(`${Buffer.byteLength(part)}:`).update(part);
  const digest = mac.digest('hex');
  return {
    id,
    request: digest,
    seal: (text) => encrypt(key, text, id + digest),
    open: (sealed) => decrypt(key, sealed, id + digest),
  };
}

const byId = compiled<{ id: string }>()((db, p) => db.selectFrom('kept_answers').selectAll().where('id', '=', p('id')));

/** The stored row, however old; undefined when there is none. */
export function keptAt(
  reads: Kysely<Tables>,
  { id }: Pick<ResponsePlace, 'id'>,
): Promise<KeptAnswersTable | undefined> {
  return byId.first(reads, { id });
}

/**
 * @param replaced the row to replace, because it is too old.
 * @returns false when there is another row by now, which stays.
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

/**
 * Stores the response to one request. What the same request has stored before is replaced: a new directory may move to another
 * node, and a transaction may be repeated.
 * @param row the row for a result. No two have the same `answer`.
 * @param old a row that is replaced, because it is too old.
 * @param taken the error when another request has stored its response meanwhile, so that this change is not made.
 */
export function storedOnce<Result>(
  place: Pick<ResponsePlace, 'id'>,
  row: (result: Result) => KeptAnswersTable | Promise<KeptAnswersTable>,
  { old, taken }: { readonly old?: KeptAnswersTable | undefined; readonly taken: () => BerthError },
): StoredResponse<Result> {
  let own: KeptAnswersTable | undefined;
  return {
    async keep(tx, result) {
      const before = own && (await keptAt(tx, place));
      const isOwn = own !== undefined && before?.answer.equals(own.answer) === true;
      const next = await row(result);
      if (!(await insertKept(tx, next, isOwn ? before : old))) throw taken();
      own = next;
    },
    withdraw: () => removalOf(place),
  };
}

/**
 * Lets a form of the dashboard make its change once: a second change with the same token is undone. Remembered as long as a response.
 * @throws {BerthError} `in_flight` in the transaction of the second change.
 */
export function once(accountId: string, token: string, clock: Clock): StoredResponse<unknown> {
  const id = hashToken(`${accountId} ${token}`);
  const row = { id, account_id: accountId, request: '', answer: randomBytes(12) };
  const taken = () => new BerthError('in_flight', 'This form has been sent before');
  return storedOnce({ id }, () => ({ ...row, inserted_at: clock.now() }), { taken });
}

function removalOf({ id }: Pick<ResponsePlace, 'id'>): Removal {
  return async (tx) => {
    const removed = tx.deleteFrom('kept_answers').where('id', '=', id).returning(['account_id', 'answer']);
    const row = await removed.executeTakeFirst();
    if (row) await addToTotal(tx, row.account_id, -row.answer.length);
  };
}

/**
 * Checked before the request is carried out: if its response could not be stored, the request could be carried out twice.
 * @throws {BerthError} `rate_limited`.
 */
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

/** Corrects the totals after old responses were removed. */
export async function recountKept(db: Kysely<Tables>): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await tx.deleteFrom('kept_answer_totals').execute();
    await sql`
      insert into kept_answer_totals (account_id, bytes)
      select account_id, sum(length(answer)) from kept_answers group by account_id`.execute(tx);
  });
}
