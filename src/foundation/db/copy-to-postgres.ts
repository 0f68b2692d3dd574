/**
 * Copies an SQLite database into an empty PostgreSQL database. The whole copy is one transaction, which compares counts
 * and sums before it commits: after a crash or an error the PostgreSQL database is as empty as before, or complete.
 */
import pg from 'pg';
import { errorCode, OperatorError } from '../base/errors.ts';
import { openPostgres } from './open-postgres.ts';
import { shownPlace } from '../base/database-place.ts';
import { CONNECT_TIMEOUT_MS, types } from './postgres.ts';
import { explained } from './postgres-server.ts';
import { hash } from 'node:crypto';
import Sqlite from 'better-sqlite3';

export interface Copying {
  /** SQLite's file, with this version's schema. No other process may have it open. */
  readonly file: string;
  readonly url: string;
  /** The node that has the directories' jails. */
  readonly node: string;
  /** Called after each batch, and before steps that take a while. */
  progress(line: string): void;
  readonly stop: AbortSignal;
}

export interface Copied extends Disposable {
  /** The number of rows by table. */
  readonly tables: Readonly<Record<string, number>>;
  /** An earlier run had copied everything. */
  readonly wasThere: boolean;
}

/** Tables that already have rows in a new database, and tables that an SQLite database does not use. */
const OWN_ROWS = ['clock', 'installation'];
const NOT_COPIED = ['nodes', 'leftovers', 'unanswered_deletions'];

/** PostgreSQL's error code for a text with a NUL (its manual, appendix A: untranslatable_character). */
const NOT_STORABLE = '22P05';

/**
 * @returns the copied tables. The SQLite file stays locked until the result is disposed of.
 * @throws {OperatorError} when the PostgreSQL database is not empty, cannot be used, or does not accept some value.
 */
export async function copyToPostgres({ file, url, node, progress, stop }: Copying): Promise<Copied> {
  const client = new pg.Client({
    connectionString: url,
    types,
    application_name: 'berth migrate-to',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  client.on('error', () => undefined); // the next statement says it, too
  using closing = new DisposableStack();
  try {
    await refuseOtherPrograms(client, url);
    const source = closing.use(openSource(file));
    // Create the schema, unless an earlier run has.
    await (await openPostgres(url)).close();
    const tables = await tablesFor(client, source, node);
    const rows = Object.fromEntries(tables.map(({ name }) => [name, source.count(name)]));
    const wasThere = await isCopied(client, source, url, tables);
    if (!wasThere) await copyAll({ client, source, tables, rows, progress, stop });
    const held = closing.move();
    return { tables: rows, wasThere, [Symbol.dispose]: () => held.dispose() };
  } catch (error) {
    stop.throwIfAborted();
    throw explained(error, url);
  } finally {
    await client.end();
  }
}

/** Connects, and checks that the database has no tables other than berth's. */
async function refuseOtherPrograms(client: pg.Client, url: string): Promise<void> {
  await client.connect();
  const names = await tablesOf(client);
  if (names.length === 0 || names.includes('kysely_migration')) return;
  throw new OperatorError(
    `the database ${shownPlace(url)} is not empty: it has tables of another program (${names.slice(0, 3).join(', ')}); give berth a database of its own`,
  );
}

async function tablesOf(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')`,
  );
  return rows.map(({ name }) => name);
}

/** The tables and their columns, except generated ones. A table comes after those that it refers to. */
async function tablesFor(client: pg.Client, source: Source, node: string): Promise<CopiedTable[]> {
  const { rows: columns } = await client.query<{ table: string; name: string; type: string }>(
    `select table_name as table, column_name as name, data_type as type from information_schema.columns
     where table_schema = current_schema() and is_generated = 'NEVER' order by ordinal_position`,
  );
  const { rows: references } = await client.query<{ from: string; to: string }>(
    `select conrelid::regclass::text as from, confrelid::regclass::text as to from pg_constraint
     where contype = 'f' and connamespace = current_schema()::regnamespace`,
  );
  const left = new Set(source.tables().filter((name) => !NOT_COPIED.includes(name)));
  const tables: CopiedTable[] = [];
  while (left.size > 0) {
    const free = [...left].filter((name) => !references.some(({ from, to }) => from === name && left.has(to)));
    if (free.length === 0) throw new Error(`tables refer to each other in a circle: ${[...left].join(', ')}`);
    for (const name of free) {
      left.delete(name);
      const own = columns.filter(({ table }) => table === name);
      tables.push({
        name,
        columns: own.map((each) => (name === 'directories' && each.name === 'node' ? { ...each, value: node } : each)),
      });
    }
  }
  return tables;
}

/**
 * Whether an earlier run has copied everything, and nothing has changed since. False for a database without rows.
 * @throws {OperatorError} when the database has other rows, or either side has changed since an earlier copy.
 */
async function isCopied(client: pg.Client, source: Source, url: string, tables: CopiedTable[]): Promise<boolean> {
  const filled: string[] = [];
  for (const name of await tablesOf(client)) {
    if (OWN_ROWS.includes(name) || name.startsWith('kysely_')) continue;
    const { rowCount } = await client.query(`select from ${name} limit 1`);
    if (rowCount !== 0) filled.push(name);
  }
  if (filled.length === 0) return false;
  const where = shownPlace(url);
  const { rows } = await client.query<{ id: string }>('select id from installation');
  if (rows[0]?.id !== source.installation()) {
    throw new OperatorError(`the database ${where} is not empty: ${filled.slice(0, 3).join(', ')} have rows`);
  }
  const difference = await firstDifference(client, source, tables);
  if (difference === undefined) return true;
  throw new OperatorError(
    `the database ${where} has an earlier copy, and one of the two has changed since (${difference}): drop that database, create it, and copy again`,
  );
}

interface CopyingAll extends Pick<Copying, 'progress' | 'stop'> {
  readonly client: pg.Client;
  readonly source: Source;
  readonly tables: readonly CopiedTable[];
  readonly rows: Readonly<Record<string, number>>;
}

async function copyAll({ client, source, tables, rows, progress, stop }: CopyingAll): Promise<void> {
  const names = tables.map(({ name }) => name).join(', ');
  await client.query('begin');
  // A berth that starts on this database now waits until the copy ends.
  await client.query(`lock table ${names} in access exclusive mode`);
  await client.query("set local synchronous_commit = 'on'");
  for (const name of OWN_ROWS) await client.query(`delete from ${name}`);
  for (const table of tables) {
    await copyOne({ client, source, table, rows: rows[table.name] ?? 0, progress, stop });
  }
  await setIdentities(client, source);
  progress('comparing');
  const difference = await firstDifference(client, source, tables);
  if (difference !== undefined) {
    throw new OperatorError(`the copy differs from the original (${difference}): nothing has changed; this is a bug`);
  }
  stop.throwIfAborted();
  await client.query('commit');
  progress('gathering statistics');
  await client.query('analyze');
}

interface CopyingOne extends Pick<CopyingAll, 'client' | 'source' | 'progress' | 'stop'> {
  readonly table: CopiedTable;
  readonly rows: number;
}

async function copyOne({ client, source, table, rows, progress, stop }: CopyingOne): Promise<void> {
  const columns = table.columns.map(({ name }) => name).join(', ');
  const insert = `insert into ${table.name} (${columns}) select ${columns} from json_populate_recordset(null::${table.name}, $1)`;
  let done = 0;
  try {
    for (const batch of source.batches(table)) {
      stop.throwIfAborted();
      await client.query(insert, [batch.json]);
      done += batch.rows;
      progress(`${table.name}: ${done} of ${rows}`);
    }
  } catch (error) {
    if (errorCode(error) !== NOT_STORABLE) throw error;
    const found = source.nul(table);
    if (found === undefined) throw error;
    throw new OperatorError(
      `PostgreSQL cannot store a NUL: ${found.column} in ${table.name} has one, in the row ${found.key}; change it first`,
      { cause: error },
    );
  }
}

/** Sets the counters of keys, so that the next row gets a number that was never used. */
async function setIdentities(client: pg.Client, source: Source): Promise<void> {
  const { rows } = await client.query<{ table: string; name: string }>(
    `select table_name as table, column_name as name from information_schema.columns
     where table_schema = current_schema() and is_identity = 'YES'`,
  );
  for (const { table, name } of rows) {
    const highest = source.highest(table, name);
    if (highest > 0) await client.query('select setval(pg_get_serial_sequence($1, $2), $3)', [table, name, highest]);
  }
}

/** Describes the first count or sum that differs between the two sides. */
async function firstDifference(
  client: pg.Client,
  source: Source,
  tables: readonly CopiedTable[],
): Promise<string | undefined> {
  const checksum = (column: string): string => `coalesce(sum(('x' || left(md5(${column}), 6))::bit(24)::int), 0)`;
  for (const table of tables) {
    const { rows } = await client.query<Record<string, number>>(sumsIn(table, checksum));
    for (const [what, sum] of Object.entries(source.sums(table))) {
      const found = rows[0]?.[what];
      if (found !== sum) return `${table.name}, ${what}: ${found} instead of ${sum}`;
    }
  }
  return undefined;
}

// Reads an SQLite database that is to be copied, in the form in which `copy-to-postgres.ts` sends and compares it.

export interface Column {
  readonly name: string;
  /** The column's type in PostgreSQL: `text`, `bytea`, or a number type. */
  readonly type: string;
  /** The value that all rows get in place of their own. */
  readonly value?: string;
}

interface CopiedTable {
  readonly name: string;
  readonly columns: readonly Column[];
}

/** Numbers are summed modulo this prime, so that sums stay exact in 64 bits. */
const PRIME = 1_000_003;

/**
 * A query for figures that have to be equal on both sides: the number of rows, and for each column the number of values
 * and a sum: of the numbers modulo `PRIME`, or of the lengths of texts and bytes. Ids also get a checksum.
 * @param checksum an aggregate that is the same for the same texts in any order.
 */
function sumsIn({ name, columns }: CopiedTable, checksum: (column: string) => string): string {
  const sums = columns
    .filter(({ value }) => value === undefined)
    .flatMap(({ name: column, type }) => {
      const sum = type === 'text' || type === 'bytea' ? `sum(octet_length(${column}))` : `sum(${column} % ${PRIME})`;
      const ids = column === 'id' && type === 'text' ? [`${checksum(column)} as "${column} by checksum"`] : [];
      return [`count(${column}) as "values of ${column}"`, `coalesce(${sum}, 0) as "${column}"`, ...ids];
    });
  return `select ${['count(*) as rows', ...sums].join(', ')} from ${name}`;
}

interface Source extends Disposable {
  /** The names of the tables with berth's own rows. */
  tables(): string[];
  /** The highest key that a table has or ever gave out. */
  highest(table: string, column: string): number;
  count(table: string): number;
  /** The rows as JSON arrays of objects, in batches of some 256 KiB. Bytes are written as PostgreSQL's text form. */
  batches(table: CopiedTable): Iterable<{ readonly json: string; readonly rows: number }>;
  sums(table: CopiedTable): Readonly<Record<string, number>>;
  /** The first value with a NUL, which PostgreSQL cannot store: its column, and the key of its row. */
  nul(table: CopiedTable): { readonly column: string; readonly key: string } | undefined;
  installation(): string;
}

const BATCH_CHARACTERS = 256 * 1024;

/**
 * Opens the database exclusively: no other process can read or write until it is disposed of, so that nothing changes
 * during the copy.
 * @throws {OperatorError} while another process has it open.
 */
function openSource(file: string): Source {
  const sqlite = new Sqlite(file, { timeout: 1000 });
  try {
    // Leaving WAL mode works only if no other process has the file open.
    sqlite.pragma('journal_mode = delete');
    sqlite.exec('begin exclusive');
  } catch (error) {
    sqlite.close();
    if (errorCode(error) !== 'SQLITE_BUSY') throw error;
    throw new OperatorError(`another process uses ${file} (fuser ${file}): wait until it ends`, { cause: error });
  }
  sqlite.aggregate('checksum', {
    start: 0,
    step: (sum: number, text: unknown) => sum + Number.parseInt(hash('md5', String(text)).slice(0, 6), 16),
  });
  const one = (query: string): unknown => sqlite.prepare(query).pluck().get();

  function* batches({ name, columns }: CopiedTable): ReturnType<Source['batches']> {
    let batch: string[] = [];
    let length = 0;
    for (const row of sqlite.prepare<[], object>(`select ${columns.map(selected).join(', ')} from ${name}`).iterate()) {
      const json = JSON.stringify(row);
      batch.push(json);
      length += json.length;
      if (length < BATCH_CHARACTERS) continue;
      yield { json: `[${batch.join()}]`, rows: batch.length };
      batch = [];
      length = 0;
    }
    if (batch.length > 0) yield { json: `[${batch.join()}]`, rows: batch.length };
  }

  return {
    tables: () =>
      sqlite
        .prepare<[], string>(
          `select name from pragma_table_list where schema = 'main' and type = 'table'
          and name not like 'sqlite\\_%' escape '\\' and name not like 'kysely\\_%' escape '\\' order by name`,
        )
        .pluck()
        .all(),
    highest(table, column) {
      const given = `select seq from sqlite_sequence where name = '${table}'`;
      return Number(one(`select max(coalesce((${given}), 0), coalesce((select max(${column}) from ${table}), 0))`));
    },
    count: (table) => Number(one(`select count(*) from ${table}`)),
    batches,
    sums: (table) =>
      sqlite.prepare<[], Record<string, number>>(sumsIn(table, (column) => `checksum(${column})`)).get() ?? {},
    nul({ name, columns }) {
      for (const { name: column } of columns.filter(({ type }) => type === 'text')) {
        const key = sqlite
          .prepare<[], string | number>(
            `select ${columns[0]?.name} from ${name} where instr(${column}, char(0)) > 0 limit 1`,
          )
          .pluck()
          .get();
        if (key !== undefined) return { column, key: String(key) };
      }
      return undefined;
    },
    installation: () => String(one('select id from installation')),
    [Symbol.dispose]: () => void sqlite.close(),
  };
}

function selected({ name, type, value }: Column): string {
  if (value !== undefined) return `'${value}' as ${name}`;
  // hex() of null is an empty text.
  return type === 'bytea' ? `iif(${name} is null, null, '\\x' || lower(hex(${name}))) as ${name}` : name;
}
