/** The state of the Files page that its URL carries. */

import { type PageContext, pathOf } from './environment.ts';

/** In characters; no path is longer. */
const LONGEST_SEARCH = 4096;

/** `after` is where the page begins, in the form that the previous page gave it. */
export type FilesView = { readonly after?: string | undefined } & (
  | { readonly kind: 'newest' }
  /** `folder` is its path; empty for the directory itself. */
  | { readonly kind: 'folder'; readonly folder: Buffer }
  | { readonly kind: 'search'; readonly text: string }
);

export function viewIn({ folder, q = '', after }: Readonly<Record<string, string>>): FilesView {
  if (q.trim() !== '') return { kind: 'search', text: q.trim().slice(0, LONGEST_SEARCH), after };
  // Encoded, since names may be any bytes.
  if (folder !== undefined) return { kind: 'folder', folder: Buffer.from(folder, 'base64url'), after };
  return { kind: 'newest', after };
}

/** The query for the first page of that view, with the parameters in `more`. */
export function queryOf(view: FilesView, more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(more);
  if (view.kind === 'search') query.set('q', view.text);
  if (view.kind === 'folder') query.set('folder', view.folder.toString('base64url'));
  return `?${query.toString()}`;
}

/** The address of the list of files, in the view that this page's URL carries. */
export function filesOf(c: PageContext, done?: string): string {
  return `${pathOf(c)}/files${queryOf(viewIn(c.req.query()), done === undefined ? {} : { done })}`;
}

export const CANNOT_UNDO = 'This can’t be undone.';
