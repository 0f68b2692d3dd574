/** The files of a directory: the newest uploads, its folders, and a search, with a form that uploads files by browser. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { DirectoryRow } from '../../../foundation/db/schema.ts';
import { displayName, pathOf as pathText } from '../../../arrivals/uploads/file-path.ts';
import { folderPage } from '../../../arrivals/files/folders.ts';
import type { UploadRow } from '../../../arrivals/uploads/upload-list.ts';
import { csvAnswer, timeCell } from '../csv.ts';
import { FileList, FolderPath } from '../components/file-list.tsx';
import { Button, Field, Form } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Empty, Links, Pager } from '../components/section.tsx';
import { plainText } from '../../../foundation/base/text.ts';
import { clipped } from '../components/text.tsx';
import { counted, sizeInWords } from '../components/values.tsx';
import { type DashboardEnv, isAdmin, pathOf } from '../environment.ts';
import { CANNOT_UNDO, type FilesView, queryOf, viewIn } from '../files-view.ts';
import { maySend } from '../limits.ts';
import { type Live, renderedIn } from '../live.tsx';
import { COUNTED_FILES, fileCount, searchPage } from '../../../arrivals/files/search.ts';
import { fileWebhooks } from '../../../deliveries/webhooks/delivery-list.ts';
import { unannouncedSections } from './unannounced.tsx';

/** With this many files, a page stays below 60 KB. */
const PAGE = 40;

const DONE = {
  deleted: 'The file has been deleted.',
  'all-deleted': 'The files have been deleted.',
  'none-selected': 'Select one or more files first.',
  announced: 'Marked complete. Its webhook is on the way.',
  sent: 'The webhook is on the way.',
  'on-the-way': 'The webhook is on the way already.',
  'no-webhook': 'This directory has no webhook. Set one on the Webhook tab first.',
  released: 'The file is back at its path, and its webhook is on the way.',
};

export function filesPage(app: Hono<DashboardEnv>, context: AppContext, live: Live): void {
  const { database } = context;
  app.get('/dashboard/directories/:id/files', async (c) => {
    const view = viewIn(c.req.query());
    const directory = c.get('directory');
    const list = await listOf(context, directory.id, view);
    const folder = view.kind === 'folder' ? view.folder : Buffer.alloc(0);
    return c.render(
      <DirectoryLayout tab="Files" done={DONE}>
        {await unannouncedSections(context, directory.id, isAdmin(c))}
        <Links class="views" label="Views" links={VIEWS} current={TITLES[view.kind]} />
        <form class="toolbar" role="search" aria-label="Files">
          <Field label="Search names" name="q" type="search" value={view.kind === 'search' ? view.text : ''} />
          <button class="plain">Search</button>
          {maySend(c, 'links') && (
            <a class="button plain" href={`links?for=upload&folder=${folder.toString('base64url')}`}>
              Create a link
            </a>
          )}
        </form>
        {view.kind === 'folder' && <FolderPath folder={view.folder} />}
        <Form action={`${pathOf(c)}/files/selected`}>
          <div class="selection" data-selection>
            <Totals directory={directory} count={await fileCount(database.reads, directory.id)} />
            <output></output>
            <button class="plain" data-download>
              Download selected
            </button>
            <Button
              label="Delete selected"
              kind="danger"
              formaction={`files/delete-selected${queryOf(view)}`}
              confirm={CANNOT_UNDO}
            />
          </div>
          <div data-live={`files/events${new URL(c.req.url).search}`}>{list}</div>
        </Form>
        <Upload address={`${pathOf(c)}/files/${addressOf(folder)}`} />
      </DirectoryLayout>,
    );
  });

  app.get('/dashboard/directories/:id/files/export.csv', (c) =>
    csvAnswer('uploads', ['id', 'path', 'size_bytes', 'uploaded_at'], csvRows(context, c.get('directory').id)),
  );

  app.get('/dashboard/directories/:id/files/events', async (c) => {
    const { id } = c.get('directory');
    const view = viewIn(c.req.query());
    return live(c, { directoryId: id }, async () => renderedIn(c, await listOf(context, id, view)));
  });
}

/** Uploads that are read at once for an export. */
const CSV_BATCH = 1000;

async function* csvRows({ uploads }: AppContext, directoryId: string) {
  for (let after: UploadRow | undefined, hasMore = true; hasMore;) {
    const rows = await uploads.list(directoryId, { limit: CSV_BATCH, after });
    for (const { id, path, size_bytes, uploaded_at } of rows)
      yield [id, displayName(path), size_bytes, timeCell(uploaded_at)];
    after = rows.at(-1);
    hasMore = rows.length === CSV_BATCH;
  }
}

const TITLES: Readonly<Record<FilesView['kind'], string>> = {
  newest: 'Newest uploads',
  folder: 'Folders',
  search: 'Search results',
};

const VIEWS = { [TITLES.newest]: '?', [TITLES.folder]: '?folder=' };

const Totals: FC<{ directory: DirectoryRow; count: number }> = ({ directory, count }) => (
  <p class="totals quiet">
    {count > COUNTED_FILES
      ? `Over ${counted(COUNTED_FILES)} files`
      : `${counted(count)} ${count === 1 ? 'file' : 'files'}`}
    {` · ${sizeInWords(directory.storage_bytes)}`}
    <a href="files/export.csv">Export as CSV</a>
  </p>
);

/** `address` is the URL of the folder, to which a file's name is added. The script shows this form, and sends the files. */
const Upload: FC<{ address: string }> = ({ address }) => (
  <Form class="drop" upload={address}>
    <label for="upload">Upload files from this computer</label>
    <input type="file" id="upload" multiple />
    <p class="hint">Or drop them here. For your customer to download. No webhook.</p>
    <div role="status"></div>
  </Form>
);

/** A folder for a URL: each name is percent-encoded byte by byte, and followed by a slash. */
function addressOf(folder: Buffer): string {
  if (folder.length === 0) return '';
  const byte = (character: string) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
  const names = pathText(folder).split('/');
  return `${names.map((name) => name.replaceAll(/[^\w.-]/g, byte)).join('/')}/`;
}

/** The part of the page that is rendered again whenever files change. */
async function listOf(context: AppContext, directoryId: string, view: FilesView) {
  const { entries, next } = await pageOf(context, directoryId, view);
  const uploads = entries.flatMap((entry) => ('file' in entry && entry.file.state === 'uploaded' ? [entry.file] : []));
  const webhooks = await fileWebhooks(context.database.reads, directoryId, uploads);
  if (entries.length === 0 && next === undefined) return <NoFiles view={view} />;
  const caption = `${TITLES[view.kind]}. New files appear automatically.`;
  return (
    <>
      <FileList caption={caption} entries={entries} view={view} webhooks={webhooks} />
      {entries.length === 0 && <p>Nothing found so far. The next page continues the search.</p>}
      <Pager of="files" first={view.after && queryOf(view)} next={next && queryOf(view, { after: next })} />
    </>
  );
}

async function pageOf({ database: { reads }, uploads }: AppContext, directoryId: string, view: FilesView) {
  if (view.kind === 'newest') {
    const rows = await uploads.list(directoryId, { limit: PAGE + 1, after: placeIn(view.after) });
    const entries = rows.slice(0, PAGE).map((row) => ({ file: { ...row, state: 'uploaded' as const } }));
    const last = rows[PAGE] && rows[PAGE - 1];
    return { entries, next: last && `${last.uploaded_at}.${last.id}` };
  }
  const from = Buffer.from(view.after ?? '', 'base64url');
  const { entries, next } = await (view.kind === 'folder'
    ? folderPage(reads, directoryId, view.folder, { from, limit: PAGE })
    : searchPage(reads, directoryId, view.text, { from, limit: PAGE }));
  return { entries, next: next?.toString('base64url') };
}

const NoFiles: FC<{ view: FilesView }> = ({ view }) => {
  if (view.kind === 'newest')
    return (
      <Empty title="No uploads yet">
        Files appear here as soon as they arrive. <a href="access">See how to connect</a>
      </Empty>
    );
  const text = view.kind === 'search' ? plainText(clipped(view.text, 100)) : '';
  return (
    <Empty title={view.kind === 'folder' ? 'This folder is empty' : `No path contains "${text}".`}>
      <a href="?">Show the newest uploads</a>
    </Empty>
  );
};

/** The place of a row among the newest uploads. The row itself may have gone. */
function placeIn(after = '') {
  const [, at, id = ''] = /^(\d{1,16})\.([\da-f-]{36})$/.exec(after) ?? [];
  return at === undefined ? undefined : { uploaded_at: Number(at), id };
}
