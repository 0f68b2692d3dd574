/** One file: fetched, and deleted after a question that needs no script. Who may do what is as in the API. */
import type { Hono } from 'hono';
import { fileAnswer } from '../../http/file-answer.ts';
import type { Turn } from '../../http/turns.ts';
import type { DirectoryFiles } from '../../uploads/directory-files.ts';
import { displayName, type UploadList } from '../../uploads/upload-list.ts';
import { Form } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Text } from '../components/text.tsx';
import { Size, Time } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { queryOf, viewIn } from '../files-view.ts';

const PATH = '/dashboard/directories/:id/files/:upload';

export interface FileDependencies {
  readonly uploads: UploadList;
  readonly files: DirectoryFiles;
  readonly fileTurn: Turn;
}

export function filePages(app: Hono<DashboardEnv>, { uploads, files, fileTurn }: FileDependencies): void {
  app.get(`${PATH}/content`, async (c) => {
    const directory = c.get('directory');
    const found = await files.content(directory, c.req.param('upload'));
    return fileAnswer(c.env, found, () => fileTurn(directory.account_id, c.env.outgoing));
  });

  app.get(`${PATH}/delete`, async (c) => {
    const { path, size_bytes, uploaded_at } = await uploads.byId(c.get('directory').id, c.req.param('upload'));
    return c.render(
      <DirectoryLayout tab="Files">
        <Section title="Delete this file?" about="It cannot be brought back.">
          <p>
            <Text of={displayName(path)} />, <Size bytes={size_bytes} />, <Time at={uploaded_at} />
          </p>
          <Form class="actions">
            <button class="danger">Delete file</button>
            <a href={listOf(c)}>Cancel</a>
          </Form>
        </Section>
      </DirectoryLayout>,
    );
  });

  app.post(`${PATH}/delete`, async (c) => {
    await files.remove(targetOf(c), c.req.param('upload'));
    return c.redirect(listOf(c, { done: 'deleted' }), 303);
  });
}

/** The list that the reader comes from. */
function listOf(c: PageContext, more?: Record<string, string>): string {
  return `${pathOf(c)}/files${queryOf(viewIn(c.req.query()), more)}`;
}
