/**
 * Files and folders, with what can be done to each. Names are bytes that clients have chosen: a file's links go by its
 * upload's id, a folder's by its bytes. Links are relative to the Files page.
 */
import type { FC } from 'hono/jsx';
import type { FileState } from '../../db/schema.ts';
import { baseName, bytesOf, displayName, pathOf } from '../../uploads/file-path.ts';
import { folderQuery } from '../files-view.ts';
import type { Entry, ListedFile } from '../../uploads/folders.ts';
import { Text } from './text.tsx';
import { Badge, Size, Time } from './values.tsx';

/** Characters of a name or path that are shown, from its end: one name is never longer. */
const MOST = 255;

const STATES: Readonly<Record<Exclude<FileState, 'uploaded'>, string>> = {
  waiting: 'temporary name',
  partial: 'incomplete',
  placed: 'put here for download',
};

interface FileListProps {
  readonly entries: readonly Entry[];
  /** Whether only the last component of each path is shown. */
  readonly isFolder: boolean;
  /** The query of the page to come back to. */
  readonly back: string;
}

export const FileList: FC<FileListProps> = ({ entries, isFolder, back }) => {
  const name = (path: Buffer): string => shortened(displayName(isFolder ? baseName(pathOf(path)) : path));
  return (
    <div class="scroll" tabindex={0}>
      <table aria-label="Files">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">
              Size
            </th>
            <th scope="col">Uploaded</th>
            <th scope="col">Actions</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) =>
            'folder' in entry ? (
              <tr>
                <td colspan={4}>
                  <a href={folderQuery(entry.folder)}>
                    <Text of={`${name(entry.folder)}/`} />
                  </a>
                </td>
              </tr>
            ) : (
              <FileRow file={entry.file} name={name(entry.file.path)} back={back} />
            ),
          )}
        </tbody>
      </table>
    </div>
  );
};

const FileRow: FC<{ file: ListedFile; name: string; back: string }> = ({ file, name, back }) => {
  const { id, size_bytes, uploaded_at, state } = file;
  return (
    <tr>
      <td>
        <Text of={name} /> {state !== 'uploaded' && <Badge kind="waiting" text={STATES[state]} />}
      </td>
      <td class="number">
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

/** The way from the topmost folder to this one: the last few steps of a long one. */
export const FolderPath: FC<{ folder: Buffer }> = ({ folder }) => {
  const names = folder.length === 0 ? [] : pathOf(folder).split('/');
  const first = Math.max(names.length - 5, 0);
  return (
    <p>
      <a href="?folder=">Topmost folder</a>
      {first > 0 && ' / …'}
      {names.slice(first).map((name, index) => {
        const path = names.slice(0, first + index + 1).join('/');
        return (
          <>
            {' / '}
            <a href={folderQuery(bytesOf(path))}>
              <Text of={shortened(displayName(name))} />
            </a>
          </>
        );
      })}
    </p>
  );
};

function shortened(text: string): string {
  return text.length > MOST ? `…${text.slice(-MOST).toWellFormed()}` : text;
}
