/** Partial files. The Files page lists them; users mark each as complete or delete it, after a confirmation that needs no script. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { Kysely } from 'kysely';
import type { Tables } from '../../../foundation/db/schema.ts';
import { BerthError } from '../../../foundation/base/errors.ts';
import { type PartialFile, partialFiles, reasonOf } from '../../../arrivals/files/partial.ts';
import { displayName } from '../../../arrivals/uploads/upload-list.ts';
import { confirmedAction } from '../components/confirmation.tsx';
import { Section } from '../components/section.tsx';
import { number, Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { FileFacts, Size, Time } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { DELETE_FILE, filesOf } from '../files-view.ts';

/** How many files are shown. */
const SHOWN = 100;
/** How many characters of a path are shown. */
const PATH_LENGTH = 400;

const PATH = '/dashboard/directories/:id/partial/:file';

/** The list of partial files; empty if there are none. */
export async function partialSection(reads: Kysely<Tables>, directoryId: string) {
  const files = await partialFiles(reads, { directories: [directoryId], limit: SHOWN + 1 });
  return files.length === 0 ? <></> : <NotFinished files={files} />;
}

const NotFinished: FC<{ files: readonly PartialFile[] }> = ({ files }) => (
  <Section title={titleOf(files)} id="partial" about={ABOUT}>
    <Table
      caption="Uploads that did not finish"
      columns={['Name', number('Size'), 'Since', 'Why', 'Actions']}
      rows={files.slice(0, SHOWN).map((file) => [
        <Text of={displayName(file.path)} most={PATH_LENGTH} />,
        <Size bytes={file.size_bytes} />,
        <Time at={file.since} />,
        why(file),
        <>
          <a href={`partial/${file.id}/announce`}>Mark complete</a> <a href={`partial/${file.id}/delete`}>Delete</a>
        </>,
      ])}
    />
  </Section>
);

function titleOf({ length }: { readonly length: number }): string {
  if (length > SHOWN) return `Over ${SHOWN} uploads did not finish`;
  return length === 1 ? '1 upload did not finish' : `${length} uploads did not finish`;
}

const ABOUT = 'These uploads were cut off, so no webhook was sent. The client can resume them.';

export function partialPages(app: Hono<DashboardEnv>, { database: { reads }, files }: AppContext): void {
  const shown = async (c: PageContext) => {
    const file = await fileOf(reads, c.get('directory').id, c.req.param('file') ?? '');
    return <FileFacts of={file} more={{ Since: <Time at={file.since} />, Why: why(file) }} />;
  };
  const common = { shown, list: filesOf };
  confirmedAction(app, `${PATH}/announce`, {
    ...common,
    question: {
      title: 'Mark this file as complete?',
      about: 'It becomes an upload with its current size, and a webhook is sent. Receivers will treat it as complete.',
      label: 'Mark complete',
      isDanger: false,
    },
    async run(c) {
      await files.announcePartial(targetOf(c), c.req.param('file') ?? '');
      return 'announced';
    },
  });
  confirmedAction(app, `${PATH}/delete`, {
    ...common,
    question: DELETE_FILE,
    async run(c) {
      await files.removePartial(targetOf(c), c.req.param('file') ?? '');
      return 'deleted';
    },
  });
}

/** Shorter than the API's reason, which is for programs. */
function why(file: PartialFile): string {
  const { cut_off } = file;
  if (cut_off === null || cut_off.pid === null) return 'berth did not see it finish';
  const { address, reason } = cut_off;
  if (reason !== null) return reasonOf(file);
  return address === null ? 'connection lost' : `connection from ${address} lost`;
}

/** @throws {BerthError} `upload_not_found`. */
async function fileOf(reads: Kysely<Tables>, directory: string, id: string): Promise<PartialFile> {
  const [file] = await partialFiles(reads, { directories: [directory], files: [id], limit: 1 });
  if (!file) throw new BerthError('upload_not_found', 'There is no such partial file; it may be an upload by now');
  return file;
}
