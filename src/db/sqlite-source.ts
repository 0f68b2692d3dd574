/** An SQLite database that leaves its file: what is in it, as `copy-to-postgres.ts` sends and compares it. */
import { hash } from 'node:crypto';
import Sqlite from 'better-sqlite3';
import { errorCode, OperatorError } from '../errors.ts';
import { type Column, type CopiedTable, sumsIn } from './copied-tables.ts';

export interface Source extends Disposable {
  /** Names of the tables that hold rows of berth's. */
  tables(): string[];
  /** The highest key that a table ever gave out, or has. */
  highest(table: string, column: string): number;
  count(table: string): number;
  /** The rows as PostgreSQL's COPY reads them, in pieces of some 64 KiB. */
  text(table: CopiedTable): Iterable<{ readonly text: Buffer; readonly rows: number }>;
  sums(table: CopiedTable): Readonly<Record<string, number>>;
  /** A column with a NUL in it, which PostgreSQL cannot store, and the first such row. */
  nul(table: CopiedTable): { readonly column: string; readonly key: string } | undefined;
  installation(): string;
}

const PIECE = 64 * 1024;

/**
 * Opens it alone: nobody else reads or writes until it is disposed of, so that nothing is changed behind the copy.
 * @throws {OperatorError} while another process has it open.
 */
export function openSource(file: string): Source {
  const sqlite = new Sqlite(file, { timeout: 1000 });
  try {
    // Only who is alone may leave the write-ahead log.
    sqlite.pragma('journal_mode = delete');
    sqlite.exec('begin exclusive');
  } catch (error) {
    sqlite.close();
    if (errorCode(error) !== 'SQLITE_BUSY') throw error;
    throw new OperatorError(`another process uses ${file} (fuser ${file}): wait for its end`, { cause: error });
  }
  sqlite.aggregate('checksum', {
    start: 0,
    step: (sum: number, text: unknown) => sum + Number.parseInt(hash('md5', String(text)).slice(0, 6), 16),
  });
  const one = (query: string): unknown => sqlite.prepare(query).pluck().get();

  function* linesOf({ name, columns }: CopiedTable): ReturnType<Source['text']> {
    const line = columns.map(asCopied).join(" || '\t' || ");
    let piece = '';
    let rows = 0;
    for (const row of sqlite.prepare<[], string>(`select ${line} from ${name}`).pluck().iterate()) {
      piece += `${row}\n`;
      rows += 1;
      if (piece.length < PIECE) continue;
      yield { text: Buffer.from(piece), rows };
      piece = '';
      rows = 0;
    }
    if (rows > 0) yield { text: Buffer.from(piece), rows };
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
    text: linesOf,
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

/** PostgreSQL's manual, COPY, "Text Format". */
function asCopied({ name, type, value }: Column): string {
  if (value !== undefined) return `'${value}'`;
  // Of null, hex() makes an empty text.
  if (type === 'bytea') return `iif(${name} is null, '\\N', '\\\\x' || lower(hex(${name})))`;
  if (type !== 'text') return `coalesce(${name}, '\\N')`;
  const escapes = [
    ['\\', '\\\\'],
    ['\n', '\\n'],
    ['\t', '\\t'],
    ['\r', '\\r'],
  ] as const;
  const escaped = escapes.reduce((expression, [from, to]) => `replace(${expression}, '${from}', '${to}')`, name);
  return `coalesce(${escaped}, '\\N')`;
}
