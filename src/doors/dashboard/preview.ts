/** Decides which files can be viewed in the browser, and how: by the name, and for images and PDFs by the first bytes too. */

/** How much of a text is read for its preview. */
export const TEXT_BYTES = 24_576;

/** Images, and how their files begin. SVG is left out, since it may contain scripts. */
const IMAGES: Readonly<Record<string, { readonly type: string; readonly begins: RegExp }>> = {
  png: { type: 'image/png', begins: /^\x89PNG\r\n\x1a\n/ },
  jpg: { type: 'image/jpeg', begins: /^\xff\xd8\xff/ },
  jpeg: { type: 'image/jpeg', begins: /^\xff\xd8\xff/ },
  gif: { type: 'image/gif', begins: /^GIF8[79]a/ },
  webp: { type: 'image/webp', begins: /^RIFF[^]{4}WEBP/ },
};

const PDF = { type: 'application/pdf', begins: /^%PDF-/ };
const TEXTS = new Set('txt csv tsv log md json xml edi yml yaml ini html htm sql asc dat'.split(' '));

export type PreviewKind = 'table' | 'text' | 'image' | 'pdf';

const extensionOf = (name: string): string => /\.([^./]{1,8})$/.exec(name)?.[1]?.toLowerCase() ?? '';

export function previewKind(name: string): PreviewKind | undefined {
  const extension = extensionOf(name);
  if (extension === 'csv' || extension === 'tsv') return 'table';
  if (TEXTS.has(extension)) return 'text';
  if (extension === 'pdf') return 'pdf';
  return Object.hasOwn(IMAGES, extension) ? 'image' : undefined;
}

export const isPreviewable = (name: string): boolean => previewKind(name) !== undefined;

/** The content type for showing the file; undefined when its first bytes do not match its name. */
export function shownType(name: string, first: Buffer): string | undefined {
  const extension = extensionOf(name);
  const known = extension === 'pdf' ? PDF : Object.hasOwn(IMAGES, extension) ? IMAGES[extension] : undefined;
  return known?.begins.test(first.toString('latin1')) === true ? known.type : undefined;
}

export interface CsvTable {
  /** Without blank rows. */
  readonly rows: readonly (readonly string[])[];
  /** The text after a quotation mark that is never closed: it takes the rest of the file for one cell. */
  readonly openQuote: string | undefined;
}

/** How a spreadsheet begins a file: with a byte order mark, a line that names the separator, or both. */
const BEGINNING = /^\ufeff?(?:sep=(.)\r?\n)?/i;

/**
 * The first `most` rows of a CSV or TSV file (RFC 4180). The separator is the one that the file names, or the most frequent in
 * the first line.
 */
export function tableIn(whole: string, most: number): CsvTable {
  const [beginning = '', named] = BEGINNING.exec(whole) ?? [];
  const text = whole.slice(beginning.length);
  const [head = ''] = text.split('\n', 1);
  const separator =
    named ?? [',', ';', '\t', '|'].toSorted((a, b) => head.split(b).length - head.split(a).length)[0] ?? ',';
  const rows: string[][] = [];
  let row: string[] = [];
  let field = '';
  let isQuoted = false;
  const endField = (): void => {
    row.push(field);
    field = '';
  };
  const endRow = (): void => {
    endField();
    if (row.some((cell) => cell.trim() !== '')) rows.push(row);
    row = [];
  };
  for (let at = 0; at < text.length && rows.length < most; at += 1) {
    const character = text[at] ?? '';
    if (isQuoted && character === '"' && text[at + 1] === '"') {
      field += '"';
      at += 1;
    } else if (character === '"' && (isQuoted || field === '')) isQuoted = !isQuoted;
    else if (!isQuoted && character === separator) endField();
    else if (!isQuoted && character === '\n') endRow();
    else if (character !== '\r' || isQuoted) field += character;
  }
  const openQuote = isQuoted ? field : undefined;
  if (rows.length < most) endRow();
  return { rows, openQuote };
}
