/** Partial files. The Files page lists them; users announce or delete each after a confirmation that needs no script. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { Kysely } from 'kysely';
import type { Tables } from '../../../foundation/db/schema.ts';
import { BerthError } from '../../../foundation/base/errors.ts';
import type { DirectoryFiles } from '../../../arrivals/files/directory-files.ts';
import { type PartialFile, partialFiles, reasonOf } from '../../../arrivals/files/partial.ts';
import { displayName } from '../../../arrivals/uploads/upload-list.ts';
import { Form } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { number, Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { Facts, Size, Time } from '../components/values.tsx';
import { type DashboardEnv, pathOf, targetOf } from '../environment.ts';

/** How many files are shown. */
const SHOWN = 100;
/** How many characters of a path are shown. */
const PATH_LENGTH = 400;

const PATH = '/dashboard/directories/:id/partial/:file';

export interface PartialOptions {
  readonly reads: Kysely<Tables>;
  readonly files: Pick<DirectoryFiles, 'announcePartial' | 'removePartial'>;
}

/** The list of partial files; empty if there are none. */
export async function partialSection(reads: Kysely<Tables>, directoryId: string) {
  const files = await partialFiles(reads, { directories: [directoryId], limit: SHOWN + 1 });
  return files.length === 0 ? <></> : <NotFinished files={files} />;
}

const NotFinished: FC<{ files: readonly PartialFile[] }> = ({ files }) => (
  <Section title="Incomplete uploads" id="partial" about={ABOUT}>
    <Table
      caption={files.length > SHOWN ? `${SHOWN} of the incomplete uploads` : 'Incomplete uploads'}
      columns={['Name', number('Size'), 'Since', 'Why', 'Actions']}
      rows={files.slice(0, SHOWN).map((file) => [
        <Text of={displayName(file.path)} most={PATH_LENGTH} />,
        <Size bytes={file.size_bytes} />,
        <Time at={file.since} />,
        reasonOf(file),
        <>
          <a href={`partial/${file.id}/announce`}>Announce</a> <a href={`partial/${file.id}/delete`}>Delete</a>
        </>,
      ])}
    />
  </Section>
);

const ABOUT =
  'The client stopped before these files were complete. They use storage, and no webhook was sent. A client can still resume them. If you know that a file is complete, announce it.';

interface Action {
  readonly title: string;
  readonly about: string;
  readonly label: string;
  readonly kind: 'danger solid' | undefined;
}

const ACTIONS = {
  announce: {
    title: 'Announce this file?',
    about:
      'A webhook is sent as if the upload had just completed, with its current size. Receivers will treat it as complete.',
    label: 'Announce file',
    kind: undefined,
  },
  delete: { title: 'Delete this file?', about: 'This can’t be undone.', label: 'Delete file', kind: 'danger solid' },
} as const satisfies Record<string, Action>;

export function partialPages(app: Hono<DashboardEnv>, { reads, files }: PartialOptions): void {
  for (const [action, shown] of Object.entries(ACTIONS)) {
    app.get(`${PATH}/${action}`, async (c) => {
      const file = await fileOf(reads, c.get('directory').id, c.req.param('file') ?? '');
      return c.render(
        <DirectoryLayout tab="Files">
          <Question of={shown} file={file} back={`${pathOf(c)}/files`} />
        </DirectoryLayout>,
      );
    });
  }
  app.post(`${PATH}/announce`, async (c) => {
    await files.announcePartial(targetOf(c), c.req.param('file'));
    return c.redirect(`${pathOf(c)}/files?done=announced`, 303);
  });
  app.post(`${PATH}/delete`, async (c) => {
    await files.removePartial(targetOf(c), c.req.param('file'));
    return c.redirect(`${pathOf(c)}/files?done=deleted`, 303);
  });
}

const Question: FC<{ of: Action; file: PartialFile; back: string }> = ({ of: action, file, back }) => (
  <Section title={action.title} about={action.about}>
    <Facts
      of={{
        Name: <Text of={displayName(file.path)} most={1000} />,
        Size: <Size bytes={file.size_bytes} />,
        Since: <Time at={file.since} />,
        Why: reasonOf(file),
      }}
    />
    <Form class="actions">
      <button class={action.kind}>{action.label}</button>
      <a href={back}>Cancel</a>
    </Form>
  </Section>
);

/** @throws {BerthError} `upload_not_found`. */
async function fileOf(reads: Kysely<Tables>, directory: string, id: string): Promise<PartialFile> {
  const [file] = await partialFiles(reads, { directories: [directory], files: [id], limit: 1 });
  if (!file) throw new BerthError('upload_not_found', 'There is no such partial file; it may be an upload by now');
  return file;
}
