/** Views, downloads and deletes one file or several, and uploads files. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { Micros } from '../../../foundation/base/clock.ts';
import { BerthError, errorMessage, ValidationError } from '../../../foundation/base/errors.ts';
import { fileAnswer } from '../../web/file-answer.ts';
import { receivedBytes } from '../../web/received-bytes.ts';
import { requestedPath } from '../../web/requested-path.ts';
import { announce } from '../../../arrivals/uploads/announce.ts';
import { replay } from '../../../deliveries/webhooks/replay.ts';
import type { Target } from '../../../rules/directories/target.ts';
import { displayName, type RecordedUpload } from '../../../arrivals/uploads/upload-list.ts';
import { ActionButton } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { plainText } from '../../../foundation/base/text.ts';
import { clipped, Text } from '../components/text.tsx';
import { counted, Facts, Size, Time } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { CANNOT_UNDO, filesOf, queryOf, viewIn } from '../files-view.ts';
import { fileWebhooks } from '../../../deliveries/webhooks/delivery-list.ts';
import { isFormOf } from '../session-cookie.ts';
import { type CsvTable, previewKind, shownType, tableIn, TEXT_BYTES } from '../preview.ts';
import { MOST_ZIPPED_BYTES, zipped } from '../zip.ts';

const FILES = '/dashboard/directories/:id/files';
const PATH = `${FILES}/:upload`;

/** How many files one request can select: as many as a page lists. */
const MOST_SELECTED = 100;
/** How many files an account may send at once. Each holds a descriptor. */
const AT_ONCE = 16;
/** How many rows and columns a preview has, and how many characters a cell. */
const MOST_ROWS = 100;
const MOST_COLUMNS = 50;
const CELL_LENGTH = 200;
/** How many bytes show what kind of file it is. */
const FIRST_BYTES = 16;

export function filePages(app: Hono<DashboardEnv>, context: AppContext): void {
  const { uploads, files, web } = context;
  /** The account of each file that is arriving. */
  const coming: string[] = [];
  selectedPages(app, context);

  app.get(`${PATH}/content`, async (c) => {
    const directory = c.get('directory');
    const found = await files.content(directory, c.req.param('upload'));
    return fileAnswer(c.env, found, () => web.fileSlot(directory.account_id, c.env.outgoing));
  });

  // With its content type, so that a browser shows the image in the preview.
  app.get(`${PATH}/view`, async (c) => {
    const directory = c.get('directory');
    const found = await files.content(directory, c.req.param('upload'));
    const type = shownType(displayName(found.upload.path), await beginningOf(found.content, FIRST_BYTES));
    if (type === undefined) throw new BerthError('unsupported_media_type', 'This file is not what its name says.');
    const answer = await fileAnswer(c.env, found, () => web.fileSlot(directory.account_id, c.env.outgoing));
    answer.headers.set('content-type', type);
    answer.headers.set('content-disposition', 'inline');
    return answer;
  });

  app.get(`${PATH}/preview`, async (c) => {
    const { upload, content } = await files.content(c.get('directory'), c.req.param('upload'));
    const name = displayName(upload.path);
    const kind = previewKind(name);
    const first = kind === 'table' || kind === 'text' ? await beginningOf(content, TEXT_BYTES) : Buffer.alloc(0);
    const address = `${pathOf(c)}/files/${upload.id}`;
    return c.render(
      <DirectoryLayout tab="Files" page="Preview">
        <Section title="Preview">
          <Facts
            of={{
              Name: <Text of={name} most={1000} />,
              Size: <Size bytes={upload.size_bytes} />,
              Uploaded: <Time at={upload.uploaded_at} />,
            }}
          />
          <div class="actions">
            <a class="button" href={`${address}/content`}>
              Download
            </a>
            <ActionButton action={`${address}/send${queryOf(viewIn(c.req.query()))}`} label="Send webhook again" />
            <a class="button plain" href={`${pathOf(c)}/links?file=${upload.id}`}>
              Share link
            </a>
            <ActionButton
              action={`${address}/delete${queryOf(viewIn(c.req.query()))}`}
              label="Delete file"
              about={clipped(name, 300)}
              kind="danger"
              confirm={CANNOT_UNDO}
            />
            <a href={filesOf(c)}>All files</a>
          </div>
        </Section>
        {kind === 'image' && <img class="preview" src={`${address}/view`} alt={name} />}
        {kind === 'text' && <pre tabindex={0}>{first.toString().split(/\r?\n/).map(plainText).join('\n')}</pre>}
        {kind === 'table' && <Rows of={await tableIn(first.toString(), MOST_ROWS + 1)} />}
        {content.size > first.length && first.length > 0 && <p class="quiet">This is the beginning of the file.</p>}
      </DirectoryLayout>,
    );
  });

  app.post(`${PATH}/delete`, async (c) => {
    await files.remove(targetOf(c), c.req.param('upload'));
    return c.redirect(filesOf(c, 'deleted'), 303);
  });

  app.post(`${PATH}/send`, async (c) => {
    const done = await sendAgain(
      context,
      targetOf(c),
      await uploads.byId(c.get('directory').id, c.req.param('upload')),
    );
    return c.redirect(filesOf(c, done), 303);
  });

  app.put(`${FILES}/:path{.+}`, async (c) => {
    if (!isFormOf(c, c.req.header('x-csrf') ?? ''))
      throw new BerthError('not_authorized', 'Reload the page and try again.');
    const { incoming, untimed } = c.env;
    const path = requestedPath(incoming.url ?? '', `${pathOf(c)}/files/`);
    const { accountId } = c.get('user').principal;
    if (coming.filter((each) => each === accountId).length >= AT_ONCE)
      throw new BerthError('rate_limited', `Over ${AT_ONCE} files are arriving at once`);
    coming.push(accountId);
    untimed?.();
    try {
      await files.place(targetOf(c), path, receivedBytes(incoming));
      return c.text('uploaded', 201);
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
      return c.text(`${error.message}.`, 409);
    } finally {
      coming.splice(coming.indexOf(accountId), 1);
    }
  });
}

/**
 * Sends the file's webhook again: the same content if it was sent before, and otherwise a new one.
 * @returns the name of what is done, for the notice on the next page.
 */
async function sendAgain(context: AppContext, target: Target, upload: RecordedUpload): Promise<string> {
  const sent = (await fileWebhooks(context.database.reads, target.id, [upload])).get(upload.id);
  if (sent?.state === 'pending') return 'on-the-way';
  try {
    await (sent ? replay(context, target, sent.id) : announce(context, target, upload.id));
    return 'sent';
  } catch (error) {
    if (error instanceof ValidationError && 'webhook_url' in error.fields) return 'no-webhook';
    throw error;
  }
}

/** Pages for several files at once. */
function selectedPages(app: Hono<DashboardEnv>, { uploads, files, web }: AppContext): void {
  async function selectedIn(c: PageContext): Promise<string[]> {
    const { file = [] } = await c.req.parseBody({ all: true });
    const ids = [file].flat().filter((id) => typeof id === 'string');
    return [...new Set(ids)].slice(0, MOST_SELECTED);
  }

  /** Undefined when the file was deleted or replaced after the list was shown. */
  async function uploadIfAny(directoryId: string, id: string): Promise<RecordedUpload | undefined> {
    try {
      return await uploads.byId(directoryId, id);
    } catch (error) {
      if (error instanceof BerthError && error.code === 'upload_not_found') return undefined;
      throw error;
    }
  }

  app.post(`${FILES}/selected`, async (c) => {
    const ids = await selectedIn(c);
    if (ids.length === 0) return c.redirect(filesOf(c, 'none-selected'), 303);
    const { id } = c.get('directory');
    const chosen = (await Promise.all(ids.map((each) => uploadIfAny(id, each)))).filter((each) => each !== undefined);
    if (chosen.length === ids.length) return zip(c, chosen);
    throw new BerthError('file_changed', 'Some of the files no longer exist. Go back to the list and select again.');
  });

  app.post(`${FILES}/delete-selected`, async (c) => {
    const left: { readonly id: string; readonly why: string }[] = [];
    const ids = await selectedIn(c);
    if (ids.length === 0) return c.redirect(filesOf(c, 'none-selected'), 303);
    for (const id of ids)
      try {
        await files.remove(targetOf(c), id);
      } catch (error) {
        // Somebody else has deleted the file.
        if (error instanceof BerthError && error.code === 'upload_not_found') continue;
        if (!(error instanceof BerthError)) throw error;
        left.push({ id, why: errorMessage(error) });
      }
    if (left.length === 0) return c.redirect(filesOf(c, 'all-deleted'), 303);
    const reasons = [...new Set(left.map(({ why }) => why))].join('. ');
    throw new BerthError('file_in_use', `${left.length} of ${ids.length} files could not be deleted. ${reasons}.`);
  });

  async function zip(c: PageContext, chosen: readonly RecordedUpload[]): Promise<Response> {
    const directory = c.get('directory');
    if (chosen.reduce((sum, { size_bytes }) => sum + size_bytes, 0) > MOST_ZIPPED_BYTES)
      throw new BerthError(
        'file_conflict',
        'The selected files are over 4 GB. Select fewer, or download them one by one.',
      );
    const found = await Promise.all(chosen.map(({ id }) => files.content(directory, id)));
    const { outgoing } = c.env;
    await web.fileSlot(directory.account_id, outgoing);
    const archive = zipped(
      found.map(({ upload, content }) => ({
        name: displayName(upload.path),
        size: content.size,
        modified: dateOf(upload.uploaded_at),
        read: () => content.read(0, content.size),
      })),
    );
    // If a file changes meanwhile, the connection ends, so that the browser sees that the archive is incomplete.
    const bytes = async function* () {
      try {
        yield* archive;
      } catch {
        outgoing.destroy();
      }
    };
    return new Response(ReadableStream.from(bytes()), {
      headers: {
        'content-type': 'application/zip',
        'content-disposition': `attachment; filename="${directory.slug.replaceAll(/[^\w.-]/g, '_')}.zip"`,
        'x-content-type-options': 'nosniff',
      },
    });
  }
}

const dateOf = (at: Micros): Date => new Date(at / 1000);

async function beginningOf(
  content: { readonly size: number; read(from: number, to: number): AsyncIterable<Buffer> },
  most: number,
) {
  const chunks: Buffer[] = [];
  for await (const chunk of content.read(0, Math.min(most, content.size))) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The rows of a table file. The first row has the names of the columns. */
const Rows: FC<{ of: CsvTable }> = ({
  of: {
    rows: [names = [], ...rows],
  },
}) => {
  const columns = names.slice(0, MOST_COLUMNS).map((name) => clipped(plainText(name), CELL_LENGTH));
  return (
    <>
      <Table
        caption={`The first ${rows.length} rows`}
        columns={columns}
        rows={rows.map((row) => columns.map((_, index) => <Text of={row[index] ?? ''} most={CELL_LENGTH} />))}
      >
        <p class="quiet">The file has no rows.</p>
      </Table>
      {names.length > columns.length && (
        <p class="quiet">
          {columns.length} of {counted(names.length)} columns are shown.
        </p>
      )}
    </>
  );
};
