/** Which files can be looked at in the browser, and as what. The name decides, and for images the first bytes as well. */

/** Bytes that are read for a preview of a text. */
export const TEXT_BYTES = 24_576;

/** Images by the bytes that they begin with. SVG is none of them: it may hold scripts. */
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

/** The type under which such a file is shown; undefined when its first bytes are something else. */
export function shownType(name: string, first: Buffer): string | undefined {
  const extension = extensionOf(name);
  const known = extension === 'pdf' ? PDF : Object.hasOwn(IMAGES, extension) ? IMAGES[extension] : undefined;
  return known?.begins.test(first.toString('latin1')) === true ? known.type : undefined;
}

/** The rows of a CSV or TSV file (RFC 4180), the first `most`; the separator is what the first line has most of. */
export function rowsIn(text: string, most: number): string[][] {
  const [head = ''] = text.split('\n', 1);
  const separator = [',', ';', '\t', '|'].toSorted((a, b) => head.split(b).length - head.split(a).length)[0] ?? ',';
  const rows: string[][] = [];
  let row: string[] = [];
  let field = '';
  let isQuoted = false;
  const endField = (): void => {
    row.push(field);
    field = '';
  };
  for (let at = 0; at < text.length && rows.length < most; at += 1) {
    const character = text[at] ?? '';
    if (isQuoted && character === '"' && text[at + 1] === '"') {
      field += '"';
      at += 1;
    } else if (character === '"' && (isQuoted || field === '')) isQuoted = !isQuoted;
    else if (!isQuoted && character === separator) endField();
    else if (!isQuoted && character === '\n') {
      endField();
      rows.push(row);
      row = [];
    } else if (character !== '\r' || isQuoted) field += character;
  }
  if (rows.length < most && (field !== '' || row.length > 0)) {
    endField();
    rows.push(row);
  }
  return rows;
}
