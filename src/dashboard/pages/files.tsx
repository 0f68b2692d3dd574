/** The files of a directory: the newest uploads, its folders, and a search. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { Kysely } from 'kysely';
import type { Tables } from '../../db/schema.ts';
import { folderPage, prefixPage } from '../../uploads/folders.ts';
import type { UploadList } from '../../uploads/upload-list.ts';
import { FileList, FolderPath } from '../components/file-list.tsx';
import { Field } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Empty, Links, Pager } from '../components/section.tsx';
import type { DashboardEnv } from '../environment.ts';
import { type FilesView, queryOf, viewIn } from '../files-view.ts';
import type { Live } from '../live.ts';
import { partialSection } from './partial.tsx';

const PAGE = 100;

const DONE = {
  deleted: 'The file has been deleted.',
  announced: 'The file is an upload now, and is announced.',
};

export interface FilesDependencies {
  readonly reads: Kysely<Tables>;
  readonly uploads: UploadList;
  readonly live: Live;
}

export function filesPage(app: Hono<DashboardEnv>, deps: FilesDependencies): void {
  app.get('/dashboard/directories/:id/files', async (c) => {
    const view = viewIn(c.req.query());
    const { id } = c.get('directory');
    const list = await listOf(deps, id, view);
    const partial = await partialSection(deps.reads, id);
    return c.render(
      <DirectoryLayout tab="Files" done={DONE}>
        {partial}
        <Links class="tabs" label="Views" links={VIEWS} current={TITLES[view.kind]} />
        <form class="toolbar" role="search">
          <Field label="Path begins with" name="prefix" type="search" value={c.req.query('prefix')} />
          <button class="plain">Search</button>
        </form>
        {view.kind === 'folder' && <FolderPath folder={view.folder} />}
        <div data-live={`files/events${new URL(c.req.url).search}`}>{list}</div>
      </DirectoryLayout>,
    );
  });

  app.get('/dashboard/directories/:id/files/events', async (c) => {
    const { id } = c.get('directory');
    const view = viewIn(c.req.query());
    return deps.live(c, id, async () => (await listOf(deps, id, view)).toString());
  });
}

const TITLES: Readonly<Record<FilesView['kind'], string>> = {
  newest: 'Newest uploads',
  folder: 'Folders',
  search: 'Found by their paths',
};

const VIEWS = { [TITLES.newest]: '?', [TITLES.folder]: '?folder=' };

/** What the page shows again whenever a file comes or goes. */
async function listOf(deps: FilesDependencies, directoryId: string, view: FilesView) {
  const { entries, next } = await pageOf(deps, directoryId, view);
  if (entries.length === 0 && next === undefined) return <NoFiles view={view} />;
  const caption = `${TITLES[view.kind]}. New files appear by themselves.`;
  return (
    <>
      <FileList caption={caption} entries={entries} view={view} />
      <Pager of="files" first={view.after && queryOf(view)} next={next && queryOf(view, { after: next })} />
    </>
  );
}

async function pageOf({ reads, uploads }: FilesDependencies, directoryId: string, view: FilesView) {
  if (view.kind === 'newest') {
    const rows = await uploads.list(directoryId, { limit: PAGE + 1, after: placeIn(view.after) });
    const entries = rows.slice(0, PAGE).map((row) => ({ file: { ...row, state: 'uploaded' as const } }));
    const last = rows[PAGE] && rows[PAGE - 1];
    return { entries, next: last && `${last.uploaded_at}.${last.id}` };
  }
  const from = Buffer.from(view.after ?? '', 'base64url');
  const { entries, next } = await (view.kind === 'folder'
    ? folderPage(reads, directoryId, view.folder, { from, limit: PAGE })
    : prefixPage(reads, directoryId, view.prefix, { from, limit: PAGE }));
  return { entries, next: next?.toString('base64url') };
}

const NoFiles: FC<{ view: FilesView }> = ({ view }) =>
  view.kind === 'newest' ? (
    <Empty title="No uploads yet">
      Connect as the Overview of this directory says, and put a file there: it appears here at once.
    </Empty>
  ) : (
    <Empty title={view.kind === 'folder' ? 'This folder is empty' : 'No file begins so'}>
      <a href="?">See the newest uploads</a>
    </Empty>
  );

/** Among the newest uploads: its file may have gone. */
function placeIn(after = '') {
  const [, at, id = ''] = /^(\d{1,16})\.([\da-f-]{36})$/.exec(after) ?? [];
  return at === undefined ? undefined : { uploaded_at: Number(at), id };
}
