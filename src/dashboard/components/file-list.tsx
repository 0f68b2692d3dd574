/**
 * Files and folders, with what can be done to each. Names are bytes that clients have chosen: a file's links go by its
 * upload's id, a folder's by its bytes. Links are relative to the Files page.
 */
import type { FC } from 'hono/jsx';
import type { FileState } from '../../db/schema.ts';
import { baseName, bytesOf, displayName, pathOf } from '../../uploads/file-path.ts';
import type { ListedEntry } from '../../files/folders.ts';
import { type FilesView, queryOf } from '../files-view.ts';
import { isPreviewable } from '../preview.ts';
import { number, Table } from './table.tsx';
import { clipped, Name, plainText, Text } from './text.tsx';
import { Badge, Size, Time } from './values.tsx';

/** Characters that are shown: a name is never longer. */
const NAME = 255;
const PATH = 400;

const STATES: Readonly<Record<Exclude<FileState, 'uploaded'>, string>> = {
  waiting: 'temporary name',
  partial: 'incomplete',
  placed: 'put here for download',
  checking: 'being checked',
};

interface FileListProps {
  readonly caption: string;
  readonly entries: readonly ListedEntry[];
  readonly view: FilesView;
}

/** Inside a form: ticked files are sent with its buttons. */
export const FileList: FC<FileListProps> = ({ caption, entries, view }) => {
  const back = queryOf(view);
  const nameOf = (path: Buffer): string =>
    view.kind === 'folder' ? clipped(displayName(baseName(pathOf(path))), NAME) : clipped(displayName(path), PATH);
  const cellsOf = (entry: ListedEntry) => {
    if ('folder' in entry) return [<FolderLink folder={entry.folder} name={`${nameOf(entry.folder)}/`} />];
    const { id, path, size_bytes, uploaded_at, state } = entry.file;
    const name = nameOf(path);
    const isUpload = state === 'uploaded';
    return [
      <>
        {isUpload && (
          <label class="tick">
            <input type="checkbox" name="file" value={id} /> <span class="unseen">Select {plainText(name)}</span>
          </label>
        )}
        {isUpload && isPreviewable(displayName(path)) ? (
          <Name of={name} href={`files/${id}/preview${back}`} />
        ) : (
          <Name of={name} />
        )}{' '}
        {!isUpload && <Badge kind="waiting" text={STATES[state]} />}
      </>,
      <Size bytes={size_bytes} />,
      <Time at={uploaded_at} />,
      isUpload && (
        <>
          <a href={`files/${id}/content`}>Download</a> <a href={`links?file=${id}`}>Link</a>{' '}
          <a href={`files/${id}/delete${back}`}>Delete</a>
        </>
      ),
    ];
  };
  return (
    <Table caption={caption} columns={['Name', number('Size'), 'Uploaded', 'Actions']} rows={entries.map(cellsOf)} />
  );
};

const FolderLink: FC<{ folder: Buffer; name: string }> = ({ folder, name }) => (
  <Name of={name} href={queryOf({ kind: 'folder', folder })} />
);

/** The way from the topmost folder to this one: the last few steps of a long one. */
export const FolderPath: FC<{ folder: Buffer }> = ({ folder }) => {
  const names = folder.length === 0 ? [] : pathOf(folder).split('/');
  const first = Math.max(names.length - 5, 0);
  return (
    <p>
      <a href="?folder=">Top folder</a>
      {first > 0 && ' / …'}
      {names.slice(first).map((name, index) => (
        <>
          {' / '}
          <a href={queryOf({ kind: 'folder', folder: bytesOf(names.slice(0, first + index + 1).join('/')) })}>
            <Text of={clipped(displayName(name), NAME)} />
          </a>
        </>
      ))}
    </p>
  );
};
