/** A machine on SQLite that is about to move to PostgreSQL. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Kysely } from 'kysely';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Tables } from '../../src/foundation/db/schema.ts';
import { runCommand } from '../support/command-line.ts';
import { directoryRow, insertDirectories, newAccount } from '../support/directory-rows.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { type Scratch, scratch } from '../support/scratch.ts';

/** What `migrate-child.ts` is run by. */
export const CHILD = fileURLToPath(new URL('./migrate-child.ts', import.meta.url));

/** What would be taken for something else on the way. */
export const STRANGE = [
  '\\',
  '\\N',
  '\\\\n',
  'a\tb',
  'a\nb',
  'a\r\nb\r',
  '\b\f\v\u0001',
  '"\'`$',
  '\u{1f980} é ﷽',
  '',
  '\\.',
];

export interface Moving extends Disposable {
  readonly place: Scratch;
  readonly to: TestDatabase;
  readonly settings: string;
  migrate(...args: readonly string[]): ReturnType<typeof runCommand>;
}

/** A machine on SQLite, and an empty database. */
export function moving(template = 'template0'): Moving {
  const place = scratch({ BERTH_DATABASE_URL: '', BERTH_NODE: 'one' });
  const to = freshDatabase(template);
  const settings = join(place.dir, 'berth.env');
  writeFileSync(settings, '# Settings\n#BERTH_DATABASE_URL=sqlite:/var/lib/berth/berth.db\nBERTH_RATE_LIMIT=7\n');
  chmodSync(settings, 0o640);
  mkdirSync(place.config.stateDir, { recursive: true });
  return {
    place,
    to,
    settings,
    migrate: (...args) => runCommand(place.environment, 'migrate-to', '--settings', settings, ...args),
    [Symbol.dispose]() {
      place[Symbol.dispose]();
      to.drop();
    },
  };
}

/** Rows of several tables, with every byte and with values that are hard to write. */
export async function fill({ place }: Moving): Promise<void> {
  const { db, close } = await openDatabase(place.config.database);
  const accountId = await newAccount(db);
  const rows = STRANGE.map((name, index) => directoryRow({ name, slug: `s${index}`, external_id: name || null }));
  await insertDirectories(db, accountId, rows);
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
  for (const [index, { id }] of rows.entries()) {
    const file = {
      id: `f${index}`,
      directory_id: id,
      size_bytes: 2 ** 50,
      state: 'uploaded',
      uploaded_at: 1.7e15,
    } as const;
    const found = { inode: -1 - index, mtime: -1, source: 'log', session_pid: null } as const;
    await db
      .insertInto('files')
      .values({ ...file, ...found, path: Buffer.concat([bytes, Buffer.from(`${index}`)]) })
      .execute();
    const transfer = { at: 1.7e15 + index, event: 'uploaded', directory_id: id, account_id: accountId } as const;
    const path = STRANGE[index] ?? '';
    await db
      .insertInto('transfers')
      .values({
        ...transfer,
        username: 'u',
        address: null,
        session_pid: null,
        path,
        from_path: null,
        bytes: 1,
        began_at: null,
      })
      .execute();
  }
  await fillOutbox(db, accountId, rows[0]?.id ?? '');
  // Numbers are not given out again.
  await db.deleteFrom('transfers').where('id', '=', STRANGE.length).execute();
  await close();
}

/** Attempts with an answer, an empty one, and none. */
async function fillOutbox(db: Kysely<Tables>, account_id: string, directory_id: string): Promise<void> {
  const place = {
    account_id,
    directory_id,
    upload_id: null,
    url: 'https://r/',
    destination: `${account_id} https://r`,
  };
  const due = { state: 'waiting', attempts: 3, inserted_at: 1, due_at: 2, finished_at: null } as const;
  const delivery = { id: 'delivery', ...place, ...due, body: Buffer.from('{}'), replay_at: null, replayed_as: null };
  await db.insertInto('deliveries').values(delivery).execute();
  const attempt = { delivery_id: 'delivery', started_at: 1, finished_at: 2, status: null, latency_us: 1, error: null };
  const answers = [Buffer.from([0, 255]), Buffer.alloc(0), null];
  const attempts = answers.map((response, index) => ({ ...attempt, number: index + 1, response }));
  await db.insertInto('attempts').values(attempts).execute();
}

export async function isEmpty(url: string): Promise<boolean> {
  const { db, close } = await openDatabase(url);
  const account = await db.selectFrom('accounts').select('id').limit(1).executeTakeFirst();
  await close();
  return account === undefined;
}
