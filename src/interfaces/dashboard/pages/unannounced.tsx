/** Uploads that are not announced: held back, or cut off. The Files page lists them above the others, with what can be done. */
import type { Hono } from 'hono';
import type { Child } from 'hono/jsx';
import type { AppContext } from '../../web/context.ts';
import type { HeldFile } from '../../../arrivals/checks/held.ts';
import { type PartialFile, partialFiles, reasonOf } from '../../../arrivals/files/partial.ts';
import { displayName } from '../../../arrivals/uploads/file-path.ts';
import type { Micros } from '../../../foundation/base/clock.ts';
import { ActionButton } from '../components/form.tsx';
import { Section } from '../components/section.tsx';
import { number, Table } from '../components/table.tsx';
import { clipped, Text } from '../components/text.tsx';
import { Size, Time } from '../components/values.tsx';
import { type DashboardEnv, targetOf } from '../environment.ts';
import { CANNOT_UNDO, filesOf } from '../files-view.ts';
import { adminOnly } from '../guard.ts';

/** How many files of each kind are shown. */
const SHOWN = 100;
/** How many characters of a path are shown. */
const PATH_LENGTH = 400;

const PARTIAL = '/dashboard/directories/:id/partial/:file';
const HELD = '/dashboard/directories/:id/quarantine/:file';

/** The lists; empty if there are no such files. @param mayRelease whether the user is an admin. */
export async function unannouncedSections(
  { database: { reads }, held }: AppContext,
  directoryId: string,
  mayRelease: boolean,
) {
  const of = { directories: [directoryId], limit: SHOWN + 1 };
  return (
    <>
      <Files
        id="quarantine"
        of={await held.list(of)}
        title={() => 'Held back'}
        about="No webhook was sent for these uploads: their names may still change, or they are to be checked. Rejected files are moved out of the directory, and deleted after a while. An admin can release a file that is harmless."
        why={whyHeld}
        first={{ path: 'release', label: 'Release', confirm: RELEASE }}
        mayDecide={mayRelease}
      />
      <Files
        id="partial"
        of={await partialFiles(reads, of)}
        title={(count) => `${count} did not finish`}
        about="These uploads were cut off, so no webhook was sent. The client can resume them."
        why={whyPartial}
        first={{ path: 'announce', label: 'Mark complete', confirm: COMPLETE }}
        mayDecide
      />
    </>
  );
}

const RELEASE =
  'It gets its name, and a webhook is sent, whatever the checker says. Receivers will treat it as checked.';
const COMPLETE =
  'It becomes an upload with its current size, and a webhook is sent. Receivers will treat it as complete.';

interface Unannounced {
  readonly id: string;
  readonly path: Buffer;
  readonly size_bytes: number;
  readonly since: Micros;
}

interface FilesProps<File extends Unannounced> {
  /** The name of the section, and the path of its forms. */
  readonly id: 'quarantine' | 'partial';
  readonly of: readonly File[];
  readonly title: (count: string) => string;
  readonly about: string;
  readonly why: (file: File) => string;
  /** The action besides deletion. */
  readonly first: { readonly path: string; readonly label: string; readonly confirm: string };
  readonly mayDecide: boolean;
}

const Files = <File extends Unannounced>({
  id,
  of,
  title,
  about,
  why,
  first: { path, ...first },
  mayDecide,
}: FilesProps<File>) => {
  if (of.length === 0) return <></>;
  const heading = title(
    of.length > SHOWN ? `Over ${SHOWN} uploads` : of.length === 1 ? '1 upload' : `${of.length} uploads`,
  );
  const rowOf = (file: File): Child[] => {
    const name = displayName(file.path);
    const to = { about: clipped(name, PATH_LENGTH) };
    return [
      <Text of={name} most={PATH_LENGTH} />,
      <Size bytes={file.size_bytes} />,
      <Time at={file.since} />,
      <Text of={why(file)} />,
      mayDecide && (
        <>
          <ActionButton {...to} action={`${id}/${file.id}/${path}`} {...first} />{' '}
          <ActionButton {...to} action={`${id}/${file.id}/delete`} label="Delete" kind="danger" confirm={CANNOT_UNDO} />
        </>
      ),
    ];
  };
  return (
    <Section title={heading} id={id} about={about}>
      <Table
        caption={heading}
        columns={['Name', number('Size'), 'Since', 'Why', 'Actions']}
        rows={of.slice(0, SHOWN).map(rowOf)}
      />
    </Section>
  );
};

function whyHeld({ state, reason }: HeldFile): string {
  if (state === 'rejected') return `Rejected: ${reason ?? ''}`;
  if (state === 'settling') return 'Its name may still change';
  return reason === null ? 'To be checked' : `Could not be checked: ${reason}`;
}

/** Shorter than the API's reason, which is for programs. */
function whyPartial(file: PartialFile): string {
  const { cut_off } = file;
  if (cut_off === null || cut_off.pid === null) return 'berth did not see it finish';
  const { address, reason } = cut_off;
  if (reason !== null) return reasonOf(file);
  return address === null ? 'connection lost' : `connection from ${address} lost`;
}

export function unannouncedForms(app: Hono<DashboardEnv>, { held, files }: AppContext): void {
  app.post(`${HELD}/release`, adminOnly, async (c) => {
    await held.release(targetOf(c), c.req.param('file'));
    return c.redirect(filesOf(c, 'released'), 303);
  });
  app.post(`${HELD}/delete`, adminOnly, async (c) => {
    await held.remove(targetOf(c), c.req.param('file'));
    return c.redirect(filesOf(c, 'deleted'), 303);
  });
  app.post(`${PARTIAL}/announce`, async (c) => {
    await files.announcePartial(targetOf(c), c.req.param('file'));
    return c.redirect(filesOf(c, 'announced'), 303);
  });
  app.post(`${PARTIAL}/delete`, async (c) => {
    await files.removePartial(targetOf(c), c.req.param('file'));
    return c.redirect(filesOf(c, 'deleted'), 303);
  });
}
