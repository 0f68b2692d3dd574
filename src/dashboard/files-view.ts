/** Which files the Files page shows, as its address has it. */
import type { UploadRow } from '../uploads/upload-list.ts';

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
  const own = view.kind === 'search' ? { prefix: view.prefix } : view.kind === 'folder' ? inFolder(view.folder) : {};
  return `?${new URLSearchParams({ ...own, ...more }).toString()}`;
}

export function folderQuery(folder: Buffer): string {
  return queryOf({ kind: 'folder', folder });
}

function inFolder(folder: Buffer): { folder: string } {
  return { folder: folder.toString('base64url') };
}

/** A place among the newest uploads: its file may have gone. */
export function placeText({ uploaded_at, id }: Pick<UploadRow, 'uploaded_at' | 'id'>): string {
  return `${uploaded_at}.${id}`;
}

export function placeIn(after: string | undefined): Pick<UploadRow, 'uploaded_at' | 'id'> | undefined {
  const [, at, id = ''] = /^(\d{1,16})\.([\da-f-]{36})$/.exec(after ?? '') ?? [];
  return at === undefined ? undefined : { uploaded_at: Number(at), id };
}
