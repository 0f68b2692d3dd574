/** Reads an SQLite database that is to be copied, in the form in which `copy-to-postgres.ts` sends and compares it. */
import { hash } from 'node:crypto';
import Sqlite from 'better-sqlite3';
import { errorCode, OperatorError } from '../base/errors.ts';

export interface Column {
  readonly name: string;
  /** The column's type in PostgreSQL: `text`, `bytea`, or a number type. */
  readonly type: string;
  /** The value that all rows get in place of their own. */
  readonly value?: string;
}

export interface CopiedTable {
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
export function sumsIn({ name, columns }: CopiedTable, checksum: (column: string) => string): string {
  const sums = columns
    .filter(({ value }) => value === undefined)
    .flatMap(({ name: column, type }) => {
      const sum = type === 'text' || type === 'bytea' ? `sum(octet_length(${column}))` : `sum(${column} % ${PRIME})`;
      const ids = column === 'id' && type === 'text' ? [`${checksum(column)} as "${column} by checksum"`] : [];
      return [`count(${column}) as "values of ${column}"`, `coalesce(${sum}, 0) as "${column}"`, ...ids];
    });
  return `select ${['count(*) as rows', ...sums].join(', ')} from ${name}`;
}

export interface Source extends Disposable {
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
export function openSource(file: string): Source {
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
