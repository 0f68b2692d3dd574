/** Held files: rejected, or not announced yet. The Files page lists them; admins release or delete each after a confirmation. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { HeldFile, HeldFiles } from '../../../arrivals/checks/held.ts';
import { BerthError } from '../../../foundation/base/errors.ts';
import { displayName } from '../../../arrivals/uploads/file-path.ts';
import { confirmedAction } from '../components/confirmation.tsx';
import { Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { Text } from '../components/text.tsx';
import { FileFacts, Size, Time } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { DELETE_FILE, filesOf } from '../files-view.ts';
import { adminOnly } from '../guard.ts';

/** How many files of each kind are shown. */
const SHOWN = 100;
/** How many characters of a path are shown. */
const PATH_LENGTH = 400;

const PATH = '/dashboard/directories/:id/quarantine/:file';

/** The list of held files; empty if there are none. @param mayDecide whether the user is an admin. */
export async function heldSection(held: HeldFiles, directoryId: string, mayDecide: boolean) {
  const files = await held.list({ directories: [directoryId], limit: SHOWN });
  return files.length === 0 ? <></> : <HeldBack files={files} mayDecide={mayDecide} />;
}

const HeldBack: FC<{ files: readonly HeldFile[]; mayDecide: boolean }> = ({ files, mayDecide }) => (
  <Section title="Held back" id="quarantine" about={ABOUT}>
    <Table
      caption="Files that are not announced"
      columns={['Name', 'Size', 'Since', 'Why', 'Actions']}
      rows={files.map((file) => [
        <Text of={displayName(file.path)} most={PATH_LENGTH} />,
        <Size bytes={file.size_bytes} />,
        <Time at={file.since} />,
        <Text of={why(file)} />,
        mayDecide && (
          <>
            <a href={`quarantine/${file.id}/release`}>Release</a> <a href={`quarantine/${file.id}/delete`}>Delete</a>
          </>
        ),
      ])}
    />
  </Section>
);

const ABOUT =
  'These uploads are not announced yet: their names may still change, or they are to be checked. Rejected files are moved out of the directory, and deleted after a while. An admin can release a file that is harmless.';

function why({ state, reason }: HeldFile): string {
  if (state === 'rejected') return `Rejected: ${reason ?? ''}`;
  if (state === 'settling') return 'Its name may still change';
  return reason === null ? 'To be checked' : `Could not be checked: ${reason}`;
}

export function heldPages(app: Hono<DashboardEnv>, { held }: AppContext): void {
  const shown = async (c: PageContext) => {
    const file = await fileOf(held, c.get('directory').id, c.req.param('file') ?? '');
    return <FileFacts of={file} more={{ Since: <Time at={file.since} />, Why: <Text of={why(file)} /> }} />;
  };
  const common = { shown, list: filesOf, guard: adminOnly };
  confirmedAction(app, `${PATH}/release`, {
    ...common,
    question: {
      title: 'Release this file?',
      about: 'It gets its name, and a webhook is sent, whatever the checker says. Receivers will treat it as checked.',
      label: 'Release file',
    },
    async run(c) {
      await held.release(targetOf(c), c.req.param('file') ?? '');
      return 'released';
    },
  });
  confirmedAction(app, `${PATH}/delete`, {
    ...common,
    question: DELETE_FILE,
    async run(c) {
      await held.remove(targetOf(c), c.req.param('file') ?? '');
      return 'deleted';
    },
  });
}

/** @throws {BerthError} `upload_not_found`. */
async function fileOf(held: HeldFiles, directory: string, id: string): Promise<HeldFile> {
  const [file] = await held.list({ directories: [directory], files: [id], limit: 1 });
  if (!file)
    throw new BerthError('upload_not_found', 'No such file is held back; it may have been released or deleted');
  return file;
}
