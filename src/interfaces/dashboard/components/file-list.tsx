/**
 * Lists files and folders with their actions. Names are bytes that clients have chosen, so links use the upload's id for a file,
 * and the encoded bytes for a folder. Links are relative to the Files page.
 */
import type { FC } from 'hono/jsx';
import { baseName, bytesOf, displayName, pathOf } from '../../../arrivals/uploads/file-path.ts';
import type { Delivery } from '../../../deliveries/webhooks/delivery-list.ts';
import type { ListedEntry, ListedState } from '../../../arrivals/files/folders.ts';
import { CANNOT_UNDO, type FilesView, queryOf } from '../files-view.ts';
import { isPreviewable } from '../preview.ts';
import { Button } from './form.tsx';
import { number, Table } from './table.tsx';
import { plainText } from '../../../foundation/base/text.ts';
import { clipped, Name, Text } from './text.tsx';
import { Badge, Size, Time } from './values.tsx';

/** How many characters are shown of a name, which is never longer, and of a path. */
const NAME_LENGTH = 255;
const PATH_LENGTH = 400;

const STATES: Readonly<Record<Exclude<ListedState, 'uploaded'>, string>> = {
  waiting: 'temporary name',
  partial: 'incomplete',
  placed: 'put here for download',
  checking: 'held back',
};

interface FileListProps {
  readonly caption: string;
  readonly entries: readonly ListedEntry[];
  readonly view: FilesView;
  /** The latest webhook of each file, by the file's id, where it is known. */
  readonly webhooks: ReadonlyMap<string, Delivery>;
}

/** Has to be inside a form, whose buttons send the ticked files. */
export const FileList: FC<FileListProps> = ({ caption, entries, view, webhooks }) => {
  const back = queryOf(view);
  const nameOf = (path: Buffer): string =>
    view.kind === 'folder'
      ? clipped(displayName(baseName(pathOf(path))), NAME_LENGTH)
      : clipped(displayName(path), PATH_LENGTH);
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
      isUpload && <Webhook of={webhooks.get(id)} />,
      isUpload && <Actions id={id} name={name} back={back} />,
    ];
  };
  return (
    <Table
      caption={caption}
      isCompact
      columns={[
        { name: 'Name', control: <SelectAll /> },
        number('Size'),
        'Arrived',
        'Webhook',
        { name: 'Actions', kind: 'end' },
      ]}
      rows={entries.map(cellsOf)}
    />
  );
};

const Webhook: FC<{ of: Delivery | undefined }> = ({ of: delivery }) => {
  if (delivery === undefined) return <></>;
  const status = delivery.attempts.at(-1)?.status ?? null;
  const isFailing = delivery.state === 'failed' || (status !== null && status >= 300);
  return (
    <a class={isFailing ? 'bad' : 'quiet'} href={`webhook/deliveries/${delivery.id}`}>
      {delivery.state === 'delivered' ? `✓ ${status}` : isFailing ? `✗ ${status ?? 'no answer'}` : 'on the way'}
    </a>
  );
};

/** A menu that the browser opens: it needs no script, and no box cuts it off. It is inside the form of the list. */
const Actions: FC<{ id: string; name: string; back: string }> = ({ id, name, back }) => {
  const menu = `m${id.slice(0, 8)}`;
  return (
    <>
      <button
        type="button"
        class="more"
        popovertarget={menu}
        aria-label={`Actions for ${clipped(plainText(name), 80)}`}
      >
        ⋯
      </button>
      <div class="menu" id={menu} popover="auto">
        <a href={`files/${id}/content`}>Download</a>
        <Button label="Send webhook again" formaction={`files/${id}/send${back}`} />
        <a href={`links?file=${id}`}>Share link</a>
        <Button
          label="Delete file"
          kind="danger"
          about={clipped(name, 300)}
          formaction={`files/${id}/delete${back}`}
          confirm={CANNOT_UNDO}
        />
      </div>
    </>
  );
};

/** The script shows it where there are files to select. */
const SelectAll: FC = () => (
  <label class="tick" hidden>
    <input type="checkbox" data-all /> <span class="unseen">Select all</span>
  </label>
);

const FolderLink: FC<{ folder: Buffer; name: string }> = ({ folder, name }) => (
  <Name of={name} href={queryOf({ kind: 'folder', folder })} />
);

/** Links to this folder and those above it. Of a long path, only the last few are shown. */
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
            <Text of={displayName(name)} most={NAME_LENGTH} />
          </a>
        </>
      ))}
    </p>
  );
};
