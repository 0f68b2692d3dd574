/**
 * The requests of a Markdown page: a `sh` block, and below it an `http` block with the answer. `<!-- ID = data.id -->` before
 * the answer keeps a value of it for the blocks that follow; `<!-- only id name -->` shows these members of its `data`.
 * `<!-- when … -->` before the request is what has to happen first.
 */

export interface Documented {
  /** What has to happen first; the test knows how. */
  readonly when: string | undefined;
  /** What bash runs. */
  readonly commands: string;
  /** Undefined where only the effect counts. */
  readonly answer: string | undefined;
  /** Variables of the shell, and where their values are in the answer's JSON. */
  readonly kept: ReadonlyMap<string, string>;
  /** The members that are shown; all when it is empty. */
  readonly only: readonly string[];
}

const BLOCKS = /(?:<!-- when (.*) -->\n)?```sh\n([^]*?)```(?:\n\n((?:<!-- .* -->\n)*)```http\n([^]*?)```)?/g;

export function documentedIn(page: string): Documented[] {
  return [...page.matchAll(BLOCKS)].map(([, when, commands = '', notes = '', answer]) => ({
    when,
    commands,
    answer,
    kept: new Map([...notes.matchAll(/(\w+) = (\S+)/g)].map(([, name = '', path = '']) => [name, path])),
    only: /<!-- only (.*) -->/.exec(notes)?.[1]?.split(' ') ?? [],
  }));
}

/** The page with these answers in place of its own, in the same order. */
export function withAnswers(page: string, answers: readonly (string | undefined)[]): string {
  let index = 0;
  return page.replaceAll(BLOCKS, (block, _when, _commands, _notes, old?: string) => {
    const answer = answers[index];
    index += 1;
    return old === undefined || answer === undefined
      ? block
      : block.replace(`\`\`\`http\n${old}`, () => `\`\`\`http\n${answer}`);
  });
}

/** The headers that a reader of an answer looks for. */
const SHOWN = /^(location|link|warning|retry-after|allow|etag|content-range|content-disposition|idempotency-\w+):/i;

/** What `curl -i` printed, as the page shows it: the status, the headers that matter, the body laid out. */
export function abbreviated(output: string, only: readonly string[] = []): string {
  const [head = '', ...rest] = output.split('\r\n\r\n');
  const [status = '', ...headers] = head.split('\r\n');
  const body = rest.join('\r\n\r\n');
  const isJson = headers.some((header) => /^content-type: application\/json/i.test(header));
  const laidOut = isJson && body !== '' ? laid(picked(JSON.parse(body), only)) : body.trimEnd();
  return [status, ...headers.filter((header) => SHOWN.test(header)), ...(laidOut === '' ? [] : ['', laidOut]), ''].join(
    '\n',
  );
}

/** Stands for what is left out. */
const REST = '…';

/** The body with these members of its `data` alone. */
function picked(body: unknown, only: readonly string[]): unknown {
  const { data } = body as { data?: Record<string, unknown> };
  if (only.length === 0 || data === undefined) return body;
  return { data: { ...Object.fromEntries(only.map((name) => [name, data[name]])), [REST]: REST } };
}

const WIDTH = 110;

/**
 * JSON on one line where it fits, else with a line for each member. Values that are useless in part are shortened to their
 * beginning.
 */
function laid(value: unknown, indent = ''): string {
  if (typeof value === 'string' && value.length > WIDTH) return JSON.stringify(value.slice(0, WIDTH - 20) + REST);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const deeper = `${indent}  `;
  const parts = Array.isArray(value)
    ? value.map((item) => laid(item, deeper))
    : Object.entries(value).map(([name, member]) =>
        name === REST ? REST : `${JSON.stringify(name)}: ${laid(member, deeper)}`,
      );
  const [open = '', close = ''] = Array.isArray(value) ? '[]' : '{}';
  const line = `${open}${parts.join(', ')}${close}`;
  if (!line.includes('\n') && indent.length + line.length <= WIDTH) return line;
  return `${open}\n${parts.map((part) => deeper + part).join(',\n')}\n${indent}${close}`;
}

const CHANGING: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b/g, '<id>'],
  [/\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z/g, '<time>'],
  [/(\/links\/)[\w-]{32}(?=\/)/g, '$1<token>'],
  [/(after=)\d+\./g, '$1<time>.'],
  [/("(?:sftp_password|webhook_secret|secret|password|key)": )"[^"]{16,64}"/g, '$1"<secret>"'],
  [/("(?:duration_ms|size_on_disk)": )[\d.]+/g, '$1<number>'],
  [/("sftp_username": "[a-z-]+)-[a-z0-9]{8}"/g, '$1-<suffix>"'],
  [/(etag: )"[^"]*"/gi, '$1"<etag>"'],
  [/SHA256:[A-Za-z0-9+/]{43}/g, '<fingerprint>'],
  [/(\[[\w.]+\]:\d+ \S+) [\w+/]+=*/g, '$1 <key>'],
  [/(SSHFP \d \d) [0-9a-f]+/g, '$1 <digest>'],
];

/** Without what differs from run to run. */
export function masked(answer: string): string {
  return CHANGING.reduce((text, [pattern, name]) => text.replaceAll(pattern, name), answer);
}

/** The member of the answer's JSON body at a path such as `data.0.id`. */
export function valueAt(output: string, path: string): string {
  const body = output.slice(output.indexOf('\r\n\r\n') + 4);
  const found = path
    .split('.')
    .reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], JSON.parse(body));
  if (typeof found !== 'string') throw new Error(`the answer has no ${path}: ${body}`);
  return found;
}
