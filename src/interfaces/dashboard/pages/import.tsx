/**
 * Creates several directories from a CSV file: its text, a preview of what would be created, and the passwords, which only the
 * answer has. The script reads a file into the field, since forms have no files here.
 */
import type { AppContext } from '../../web/context.ts';
import { randomUUID } from 'node:crypto';
import type { Hono } from 'hono';
import type { FC, PropsWithChildren } from 'hono/jsx';
import { DIRECTORY_LIMITS } from '../../../rules/accounts/accounts.ts';
import { BerthError, errorMessage, ValidationError, wrongField } from '../../../foundation/base/errors.ts';
import { createDirectory } from '../../../rules/directories/create.ts';
import { type Fields, newDirectory } from '../../../rules/directories/fields.ts';
import { once } from '../../../rules/history/stored-responses.ts';
import { Field, Form } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { plainText } from '../../../foundation/base/text.ts';
import { clipped, Name } from '../components/text.tsx';
import { Badge, counted } from '../components/values.tsx';
import { csvText } from '../csv.ts';
import { DIRECTORIES, IMPORT } from '../directories-view.ts';
import { accountTarget, type DashboardEnv, type PageContext } from '../environment.ts';
import { numberIn, submitted, textOrNull } from '../form.ts';
import { tableIn } from '../preview.ts';
import { storedIn } from '../../../rules/directories/view.ts';
import { SentForms } from '../sent-forms.ts';
import { sentencesOf } from '../words.ts';

/** With this many, the answer with the passwords stays below 60 KB. */
const MOST = 100;
/** How many names of columns are read: more than there are, so that one of them is unknown or repeated. */
const MOST_NAMES = 100;
/** How many characters of a text are shown. */
const SHOWN = 100;

const COLUMNS = ['name', 'external_id', 'description', 'retention_days', 'max_connections'] as const;
type Column = (typeof COLUMNS)[number];

/** How many rows are reported as wrong. */
const MOST_PROBLEMS = 20;

const EXAMPLE = 'name,external_id,retention_days\nAcme Corp,cust-42,30\nUmbrella Logistics,cust-43,0\n';

interface Line {
  readonly given: Readonly<Partial<Record<Column, string>>>;
  readonly fields: Fields;
}

interface Outcome extends Line {
  readonly username?: string;
  readonly password?: string;
  /** Why it was not created. */
  readonly problem?: string;
}

const AGAIN =
  'You have already confirmed this preview. These rows have not been created again: check the list of directories first.';

export function importPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const sent = new SentForms<readonly Outcome[]>();
  const page = (c: PageContext) =>
    c.render(
      <ImportLayout>
        <Section
          title="CSV file"
          about={`The first line names the columns. Only "name" is required. Up to ${MOST} directories at a time.`}
        >
          <Form action={IMPORT}>
            <Field
              label="Rows"
              name="csv"
              rows={10}
              placeholder={EXAMPLE}
              hint={`Columns: ${COLUMNS.join(', ')}.`}
              file="text/csv,.csv,.tsv,.txt"
              isRequired
            />
            <button>Preview</button>
          </Form>
        </Section>
      </ImportLayout>,
    );

  app.get(IMPORT, page);

  app.post(IMPORT, (c) =>
    submitted(c, page, async (given) => {
      const { csv = '', confirmed } = given;
      const lines = await linesIn(csv);
      const create = async (token: string) => {
        await checkRoom(c, lines.length);
        return createAll(c, lines, token);
      };
      if (confirmed !== undefined)
        return c.render(<Result outcomes={await sent.once(c, given, () => create(confirmed))} />);
      await checkRoom(c, lines.length);
      return c.render(<Preview lines={lines} csv={csv} />);
    }),
  );

  /** @throws {BerthError} `directory_limit` if the plan does not allow that many more. */
  async function checkRoom(c: PageContext, rows: number): Promise<void> {
    const { plan, accountId } = c.get('user').principal;
    const { directories } = await storedIn(context.database.reads, accountId);
    const free = Math.max((DIRECTORY_LIMITS[plan] ?? Infinity) - directories, 0);
    if (rows > free)
      throw new BerthError(
        'directory_limit',
        `Your plan has room for ${free === 0 ? 'no' : counted(free)} more ${free === 1 ? 'directory' : 'directories'}, but there ${rows === 1 ? 'is 1 row' : `are ${counted(rows)} rows`}. Nothing was created`,
      );
  }

  /**
   * Creates them one after the other, and stops at the first failure, because the others would most likely fail too.
   * @param confirmed the preview's token, which creates once: not again after a reload, nor in a second tab.
   */
  async function createAll(c: PageContext, lines: readonly Line[], confirmed: string): Promise<Outcome[]> {
    const first = once(c.get('user').principal.accountId, `import ${confirmed}`, context.clock);
    const outcomes: Outcome[] = [];
    let refusal: string | undefined;
    for (const line of lines)
      try {
        if (refusal !== undefined) throw new BerthError('directory_limit', 'Not created');
        const { accountId, actor } = accountTarget(c);
        const response = outcomes.length === 0 ? first : undefined;
        const target = { accountId, actor: actor && { ...actor, response } };
        const { directory, password } = await createDirectory(context, target, line.fields);
        outcomes.push({ ...line, username: directory.sftp_username, password });
      } catch (error) {
        if (outcomes.length === 0 && error instanceof BerthError && error.code === 'in_flight')
          throw wrongField('csv', 'sentence', AGAIN);
        if (outcomes.length === 0) throw error;
        if (!(error instanceof BerthError) && refusal === undefined)
          context.log.error({ request_id: c.env.notes.id, err: error }, 'an import ended early');
        // Only this answer has the passwords of the created directories, so it is always sent.
        refusal ??= error instanceof BerthError ? `${errorMessage(error)}.` : 'Something went wrong.';
        outcomes.push({ ...line, problem: refusal });
      }
    return outcomes;
  }
}

/** @throws {ValidationError} about `csv` if a directory cannot be read from the text, or cannot be created. */
async function linesIn(text: string): Promise<Line[]> {
  const wrong = (message: string): ValidationError => wrongField('csv', 'sentence', message);
  if (text.trim() === '') throw wrong('Paste or choose a CSV file.');
  const { rows: all, openQuote } = await tableIn(text, MOST + 2);
  const [head = [], ...rows] = all;
  const names = head.slice(0, MOST_NAMES).map((name) => name.trim().toLowerCase().replaceAll(/[ -]/g, '_'));
  const unknown = names.filter((name) => !COLUMNS.some((column) => column === name));
  if (!names.includes('name')) throw wrong('The first line must name the columns, including "name".');
  if (unknown.length > 0)
    throw wrong(`Unknown column "${plainText(clipped(unknown[0] ?? '', SHOWN))}". Use ${COLUMNS.join(', ')}.`);
  const repeated = names.find((name, index) => names.indexOf(name) < index);
  if (repeated !== undefined) throw wrong(`The column "${repeated}" appears twice. Remove one.`);
  if (rows.length === 0) throw wrong('The file has column names but no rows.');
  if (rows.length > MOST) throw wrong(`The file has more than ${MOST} rows. Split it and import one part at a time.`);
  if (openQuote !== undefined)
    throw wrong(`The quotation mark before "${plainText(clipped(openQuote.trim(), SHOWN))}" is never closed.`);
  const lines = rows.map((row) => lineOf(Object.fromEntries(names.map((name, at) => [name, row[at]?.trim() ?? '']))));
  const problems = lines.flatMap((line, index) => {
    const isLonger = rows[index]?.slice(names.length).some((cell) => cell.trim() !== '');
    const own = [...(isLonger ? [LONGER] : []), ...problemsOf(line)];
    return own.length === 0 ? [] : [`Row ${index + 1}: ${plainText(own.join(' '))}`];
  });
  if (problems.length > MOST_PROBLEMS) problems.splice(MOST_PROBLEMS, Infinity, 'More rows are wrong.');
  if (problems.length > 0) throw new ValidationError({ csv: problems.map((each) => ['sentence', each]) });
  return lines;
}

const LONGER =
  'This row has more cells than the first line has columns. Put quotation marks around a text that contains the separator.';

function lineOf(given: Line['given']): Line {
  const fields = {
    name: given.name,
    external_id: textOrNull(given.external_id),
    description: textOrNull(given.description),
    retention_days: numberIn(given.retention_days),
    max_connections: numberIn(given.max_connections),
  };
  return { given, fields };
}

/** Why a row cannot be created. */
function problemsOf({ fields, given }: Line): string[] {
  try {
    newDirectory(fields);
    return [];
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    return Object.entries(error.fields).flatMap(([field, problems]) =>
      sentencesOf(field, problems, given as Record<string, string>),
    );
  }
}

const ImportLayout: FC<PropsWithChildren<{ problem?: string | undefined }>> = ({ children, problem }) => (
  <Layout title="Import directories" above={[['Directories', DIRECTORIES]]} problem={problem}>
    {children}
  </Layout>
);

const Preview: FC<{ lines: readonly Line[]; csv: string }> = ({ lines, csv }) => {
  const many = `${counted(lines.length)} ${lines.length === 1 ? 'directory' : 'directories'}`;
  return (
    <ImportLayout>
      <Section title={`Create ${many}?`}>
        <Lines of={lines} />
        <Form action={IMPORT} isOnce>
          <input type="hidden" name="csv" value={csv} />
          <input type="hidden" name="confirmed" value={randomUUID()} />
          <div class="actions">
            <button>Create {many}</button>
            <a href={IMPORT}>Cancel</a>
          </div>
        </Form>
      </Section>
    </ImportLayout>
  );
};

/** Only this answer has the passwords. */
const Result: FC<{ outcomes: readonly Outcome[] }> = ({ outcomes }) => {
  const made = outcomes.filter(({ password }) => password !== undefined);
  const missing = outcomes.length - made.length;
  const rows = made.map(({ given, username = '', password = '' }) => [
    given.name ?? '',
    given.external_id ?? '',
    username,
    password,
  ]);
  const file = csvText(['name', 'external_id', 'sftp_username', 'sftp_password'], rows);
  const problem = outcomes.find((outcome) => outcome.problem !== undefined)?.problem;
  return (
    <ImportLayout
      problem={
        problem === undefined
          ? undefined
          : `${counted(missing)} of ${counted(outcomes.length)} were not created: ${problem}`
      }
    >
      <div class="secret" role="status">
        <strong>{`${counted(made.length)} ${made.length === 1 ? 'directory has' : 'directories have'} been created`}</strong>
        <p>This is the only time the passwords are shown. Download them now and keep the file safe.</p>
        <p>
          <a
            class="button"
            download="berth-passwords.csv"
            href={`data:text/csv;charset=utf-8,${encodeURIComponent(file)}`}
            data-secret="sftp-passwords"
          >
            Download the passwords
          </a>
        </p>
      </div>
      <Lines of={outcomes} hasPasswords />
      <p>
        <a href={DIRECTORIES}>All directories</a>
      </p>
    </ImportLayout>
  );
};

const Lines: FC<{ of: readonly Outcome[]; hasPasswords?: boolean }> = ({ of, hasPasswords = false }) => {
  const used = COLUMNS.filter((column) => of.some(({ given }) => given[column] !== undefined));
  const shown = hasPasswords ? used.slice(0, 2) : used;
  return (
    <Table
      caption="Rows"
      columns={[...shown.map((column) => HEADS[column]), ...(hasPasswords ? ['Username', 'Password'] : [])]}
      rows={of.map(({ given, username, password = '' }) => [
        ...shown.map((column) => <Name of={given[column] ?? ''} most={SHOWN} />),
        ...(hasPasswords
          ? [
              username === undefined ? <Badge kind="bad" text="not created" /> : <code>{username}</code>,
              <code>{password}</code>,
            ]
          : []),
      ])}
    />
  );
};

const HEADS: Readonly<Record<Column, string>> = {
  name: 'Name',
  external_id: 'External ID',
  description: 'Description',
  retention_days: 'Retention days',
  max_connections: 'Max connections',
};
