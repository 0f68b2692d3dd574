/** Decides which files can be viewed in the browser, and how: by the name, and for images by the first bytes too. */

import { yielder } from '../../foundation/base/event-loop.ts';

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

const TEXTS = new Set('txt csv tsv log md json xml edi yml yaml ini html htm sql asc dat'.split(' '));

export type PreviewKind = 'table' | 'text' | 'image';

const extensionOf = (name: string): string => /\.([^./]{1,8})$/.exec(name)?.[1]?.toLowerCase() ?? '';

export function previewKind(name: string): PreviewKind | undefined {
  const extension = extensionOf(name);
  if (extension === 'csv' || extension === 'tsv') return 'table';
  if (TEXTS.has(extension)) return 'text';
  return Object.hasOwn(IMAGES, extension) ? 'image' : undefined;
}

export const isPreviewable = (name: string): boolean => previewKind(name) !== undefined;

/** The content type for showing the file; undefined when its first bytes do not match its name. */
export function shownType(name: string, first: Buffer): string | undefined {
  const extension = extensionOf(name);
  const known = Object.hasOwn(IMAGES, extension) ? IMAGES[extension] : undefined;
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

/** How much of the first line shows which separator a file has. */
const HEAD_LENGTH = 4096;

/** How many characters are read before other requests may have their turn. */
const STEP = 16_384;

/**
 * The first `most` rows of a CSV or TSV file (RFC 4180). The separator is the one that the file names, or the most frequent in
 * the first line.
 */
export async function tableIn(whole: string, most: number): Promise<CsvTable> {
  const [beginning = '', named] = BEGINNING.exec(whole) ?? [];
  const text = whole.slice(beginning.length);
  const separator = named ?? separatorIn(text);
  const pause = yielder();
  const rows: string[][] = [];
  let row: string[] = [];
  /** What the field has so far, and where the rest of it begins. */
  let field = '';
  let start = 0;
  let isQuoted = false;
  const take = (end: number): void => {
    if (end > start) field += text.slice(start, end);
    start = end + 1;
  };
  const takeQuoted = (end: number): void => {
    field = text.slice(start, end).replaceAll('""', '"');
    start = end + 1;
    isQuoted = false;
  };
  const endField = (): void => {
    row.push(field);
    field = '';
  };
  const endRow = (): void => {
    if (row.length === 0 && field === '') return;
    endField();
    if (row.some((cell) => cell.trim() !== '')) rows.push(row);
    row = [];
  };
  for (let at = 0, step = STEP; at < text.length && rows.length < most; at += 1) {
    const character = text[at];
    if (at > step) {
      await pause();
      step = at + STEP;
    }
    if (isQuoted) {
      if (character !== '"') continue;
      // Two quotation marks are one of the text.
      if (text[at + 1] === '"') at += 1;
      else takeQuoted(at);
    } else if (character === separator || character === '\n') {
      take(at);
      if (character === '\n') endRow();
      else endField();
    } else if (character === '\r') take(at);
    else if (character === '"' && field === '' && start === at) {
      isQuoted = true;
      start = at + 1;
    }
  }
  const isOpen = isQuoted;
  if (isOpen) takeQuoted(text.length);
  const openQuote = isOpen ? field : undefined;
  if (rows.length < most) {
    take(text.length);
    endRow();
  }
  return { rows, openQuote };
}

function separatorIn(text: string): string {
  const [head = ''] = text.slice(0, HEAD_LENGTH).split('\n', 1);
  const counts = [',', ';', '\t', '|'].map((each) => ({ each, count: head.split(each).length }));
  return counts.toSorted((a, b) => b.count - a.count)[0]?.each ?? ',';
}
