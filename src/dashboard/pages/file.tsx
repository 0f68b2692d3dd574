/** One file: fetched, and deleted after a question that needs no script. Who may do what is as in the API. */
import type { Hono } from 'hono';
import type { Kysely } from 'kysely';
import type { Tables } from '../../db/schema.ts';
import { liveDirectory } from '../../directories/target.ts';
import { fileAnswer } from '../../http/file-answer.ts';
import type { Turn } from '../../http/turns.ts';
import type { DirectoryFiles } from '../../uploads/directory-files.ts';
import { displayName, type UploadList } from '../../uploads/upload-list.ts';
import { DirectoryLayout } from '../components/directory-tabs.tsx';
import { Form } from '../components/form.tsx';
import { Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Size, Time } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, targetOf } from '../environment.ts';
import { queryOf, viewIn } from '../files-view.ts';

export interface FileDependencies {
  readonly reads: Kysely<Tables>;
  readonly uploads: UploadList;
  readonly files: DirectoryFiles;
  readonly fileTurn: Turn;
}

export function filePages(app: Hono<DashboardEnv>, { reads, uploads, files, fileTurn }: FileDependencies): void {
  app.get('/dashboard/directories/:id/files/:upload/content', async (c) => {
    const directory = await liveDirectory(reads, targetOf(c, c.req.param('id')));
    const found = await files.content(directory, c.req.param('upload'));
    return fileAnswer(c.env, found, () => fileTurn(directory.account_id, c.env.outgoing));
  });

  app.get('/dashboard/directories/:id/files/:upload/delete', async (c) => {
    const directory = await liveDirectory(reads, targetOf(c, c.req.param('id')));
    const { path, size_bytes, uploaded_at } = await uploads.byId(directory.id, c.req.param('upload'));
    return c.render(
      <DirectoryLayout directory={directory} tab="Files">
        <Section title="Delete this file?" about="It cannot be brought back.">
          <p>
            <Text of={displayName(path)} />, <Size bytes={size_bytes} />, <Time at={uploaded_at} />
          </p>
          <Form class="actions">
            <button class="danger">Delete file</button>
            <a href={listOf(c, directory.id)}>Cancel</a>
          </Form>
        </Section>
      </DirectoryLayout>,
    );
  });

  app.post('/dashboard/directories/:id/files/:upload/delete', async (c) => {
    const { id, upload } = c.req.param();
    await files.remove(targetOf(c, id), upload);
    return c.redirect(listOf(c, id, { done: 'deleted' }), 303);
  });
}

/** The list that the reader comes from. */
function listOf(c: PageContext, id: string, more?: Record<string, string>): string {
  return `/dashboard/directories/${id}/files${queryOf(viewIn(c.req.query()), more)}`;
}
