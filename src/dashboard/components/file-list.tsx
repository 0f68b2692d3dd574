/**
 * Files and folders, with what can be done to each. Names are bytes that clients have chosen: a file's links go by its
 * upload's id, a folder's by its bytes. Links are relative to the Files page.
 */
import type { FC } from 'hono/jsx';
import type { FileState } from '../../db/schema.ts';
import { baseName, bytesOf, displayName, pathOf } from '../../uploads/file-path.ts';
import type { Entry } from '../../uploads/folders.ts';
import { type FilesView, queryOf } from '../files-view.ts';
import { Table } from './table.tsx';
import { clipped, Text } from './text.tsx';
import { Badge, Size, Time } from './values.tsx';

/** Characters that are shown: a name is never longer. */
const [NAME, PATH] = [255, 400];

const STATES: Readonly<Record<Exclude<FileState, 'uploaded'>, string>> = {
  waiting: 'temporary name',
  partial: 'incomplete',
  placed: 'put here for download',
};

const COLUMNS = ['Name', 'Size', 'Uploaded', 'Actions'];

export const FileList: FC<{ caption: string; entries: readonly Entry[]; view: FilesView }> = ({
  caption,
  entries,
  view,
}) => {
  const back = queryOf(view);
  const nameOf = (path: Buffer): string =>
    view.kind === 'folder' ? clipped(displayName(baseName(pathOf(path))), NAME) : clipped(displayName(path), PATH);
  return (
    <Table caption={caption} columns={COLUMNS}>
      {entries.map((entry) =>
        'folder' in entry ? (
          <tr>
            <td colspan={COLUMNS.length}>
              <FolderLink folder={entry.folder} name={`${nameOf(entry.folder)}/`} />
            </td>
          </tr>
        ) : (
          <FileRow file={entry.file} name={nameOf(entry.file.path)} back={back} />
        ),
      )}
    </Table>
  );
};

const FileRow: FC<Extract<Entry, { file: unknown }> & { name: string; back: string }> = ({ file, name, back }) => {
  const { id, size_bytes, uploaded_at, state } = file;
  return (
    <tr>
      <td>
        <Text of={name} /> {state !== 'uploaded' && <Badge kind="waiting" text={STATES[state]} />}
      </td>
      <td>
        <Size bytes={size_bytes} />
      </td>
      <td>
        <Time at={uploaded_at} />
      </td>
      <td>
        {state === 'uploaded' && (
          <>
            <a href={`files/${id}/content`}>Download</a> <a href={`files/${id}/delete${back}`}>Delete</a>
          </>
        )}
      </td>
    </tr>
  );
};

const FolderLink: FC<{ folder: Buffer; name: string }> = ({ folder, name }) => (
  <a href={queryOf({ kind: 'folder', folder })}>
    <Text of={name} />
  </a>
);

/** The way from the topmost folder to this one: the last few steps of a long one. */
export const FolderPath: FC<{ folder: Buffer }> = ({ folder }) => {
  const names = folder.length === 0 ? [] : pathOf(folder).split('/');
  const first = Math.max(names.length - 5, 0);
  return (
    <p>
      <a href="?folder=">Topmost folder</a>
      {first > 0 && ' / …'}
      {names.slice(first).map((name, index) => (
        <>
          {' / '}
          <FolderLink
            folder={bytesOf(names.slice(0, first + index + 1).join('/'))}
            name={clipped(displayName(name), NAME)}
          />
        </>
      ))}
    </p>
  );
};
