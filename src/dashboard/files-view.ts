/** Which files the Files page shows, as its address has it. */

/** `after`: where its page begins, as the page before gave it. */
export type FilesView = { readonly after?: string | undefined } & (
  | { readonly kind: 'newest' }
  /** By its path, empty for the topmost. */
  | { readonly kind: 'folder'; readonly folder: Buffer }
  | { readonly kind: 'search'; readonly prefix: string }
);

export function viewIn({ folder, prefix = '', after }: Readonly<Record<string, string>>): FilesView {
  if (prefix !== '') return { kind: 'search', prefix, after };
  // Exact, whatever the bytes of a name are.
  if (folder !== undefined) return { kind: 'folder', folder: Buffer.from(folder, 'base64url'), after };
  return { kind: 'newest', after };
}

/** The query of the first page of that view, with `more` in it. */
export function queryOf(view: FilesView, more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(more);
  if (view.kind === 'search') query.set('prefix', view.prefix);
  if (view.kind === 'folder') query.set('folder', view.folder.toString('base64url'));
  return `?${query.toString()}`;
}
