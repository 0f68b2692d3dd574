/** Which files the Files page shows, as its address has it. */

/** No path is longer. */
const LONGEST = 4096;

/** `after`: where its page begins, as the page before gave it. */
export type FilesView = { readonly after?: string | undefined } & (
  | { readonly kind: 'newest' }
  /** Its path; empty for the topmost. */
  | { readonly kind: 'folder'; readonly folder: Buffer }
  | { readonly kind: 'search'; readonly text: string }
);

export function viewIn({ folder, q = '', after }: Readonly<Record<string, string>>): FilesView {
  if (q.trim() !== '') return { kind: 'search', text: q.trim().slice(0, LONGEST), after };
  // Exact, whatever the bytes of a name are.
  if (folder !== undefined) return { kind: 'folder', folder: Buffer.from(folder, 'base64url'), after };
  return { kind: 'newest', after };
}

/** The query of the first page of that view, with `more` in it. */
export function queryOf(view: FilesView, more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(more);
  if (view.kind === 'search') query.set('q', view.text);
  if (view.kind === 'folder') query.set('folder', view.folder.toString('base64url'));
  return `?${query.toString()}`;
}
