/** Makes links for people without an SFTP client, to download or upload one file, by the same rules as the API. */
import type { Hono } from 'hono';
import { type Clock, DAY, formatMicros, type Micros } from '../../base/clock.ts';
import type { ChangeOptions } from '../../directories/change.ts';
import { requestedPath } from '../../web/requested-path.ts';
import { makeLink, revokeLinks } from '../../links/links.ts';
import type { DirectoryFiles } from '../../files/directory-files.ts';
import { displayName, type UploadList } from '../../uploads/upload-list.ts';
import { ActionButton, Field, Form, Select } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Links, Section } from '../components/section.tsx';
import { Secret } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { bytesIn, isoTime, submitted } from '../form.ts';
import { type ShownOnce, showOnce, takeShownOnce } from '../after-redirect.ts';

const PATH = '/dashboard/directories/:id/links';
const DONE = { revoked: 'No link that was made before works any more.' };

/** How long a link works by default. */
const WEEK: Micros = 7 * DAY;
const USES = { often: 'As often as needed', once: 'Once' };
/** Longer links are not passed to the next page by cookie: a cookie has at most 4,096 bytes, and the link in it is encrypted. */
const LONGEST_IN_COOKIE = 2000;

const KINDS = {
  download: {
    label: 'Download a file',
    about: 'Anybody who has the link can download the file at this path, without a key and without an SFTP client.',
    path: 'Of the file, such as out/invoice.pdf',
    once: 'A link that works once ends when the last byte has been sent.',
  },
  upload: {
    label: 'Upload a file',
    about:
      'Anybody who has the link can send one file to this path, in a browser. It is checked, recorded and announced like an upload by SFTP.',
    path: 'Where the file goes, with its name: in/report.pdf',
    once: 'A link that works once never replaces a file.',
  },
} as const;

export interface LinksOptions {
  readonly rules: ChangeOptions & { readonly clock: Clock };
  readonly files: Pick<DirectoryFiles, 'checkHome'>;
  readonly uploads: Pick<UploadList, 'byId'>;
  /** The origin of this machine's API. */
  readonly linkOrigin: string;
}

export function linksPage(app: Hono<DashboardEnv>, { rules, files, uploads, linkOrigin }: LinksOptions): void {
  async function page(c: PageContext, made: ShownOnce | undefined = takeShownOnce(c)) {
    const { file, folder = '' } = c.req.query();
    const kind = kindOf(c);
    const directory = c.get('directory');
    // A link's URL has to name the machine that has the files.
    await files.checkHome(directory);
    const upload = file === undefined ? undefined : await uploads.byId(directory.id, file);
    const within = Buffer.from(folder, 'base64url');
    const path = upload ? displayName(upload.path) : within.length > 0 ? `${displayName(within)}/` : '';
    const texts = KINDS[kind];
    return c.render(
      <DirectoryLayout tab="Files" page="Create a link" done={DONE}>
        <Secret of={made} label="Your new link">
          <p class="quiet">berth does not store it. Anyone who has it can use it until it expires.</p>
        </Secret>
        <Links
          class="views"
          label="Kinds of links"
          links={Object.fromEntries(Object.entries(KINDS).map(([each, { label }]) => [label, `?for=${each}`]))}
          current={texts.label}
        />
        <Section title="Create a link" about={texts.about}>
          <Form action={`?for=${kind}`}>
            <Field label="Path" name="path" value={path} hint={texts.path} isRequired isFirst />
            {kind === 'upload' && (
              <Field label="Largest size" name="max_bytes" value="100 MB" hint="Such as 500 MB or 2.5 GB" isRequired />
            )}
            <Field
              label="Works until"
              name="expires_at"
              type="datetime-local"
              value={formatMicros(rules.clock.now() + WEEK).slice(0, 'YYYY-MM-DDTHH:MM:SS'.length)}
              isRequired
            />
            <Select label="Works" name="uses" options={USES} />
            <p class="hint">{texts.once}</p>
            <div class="actions">
              <button>Create link</button>
              <a href="files">All files</a>
            </div>
          </Form>
        </Section>
        <Section title="End all links" about="Links cannot be listed. This ends every link of this directory at once.">
          <ActionButton
            action="links/revoke"
            label="Revoke all links"
            kind="danger"
            about="Revoke all links"
            confirm="Everybody who has a link to this directory needs a new one."
          />
        </Section>
      </DirectoryLayout>,
    );
  }

  app.get(PATH, (c) => page(c));

  app.post(PATH, (c) =>
    submitted(c, page, async ({ path = '', max_bytes = '', expires_at = '', uses }) => {
      const kind = kindOf(c);
      const fields = {
        for: kind,
        path,
        expires_at: expires_at === '' ? expires_at : isoTime(expires_at),
        once: uses === 'once',
        ...(kind === 'upload' && { max_bytes: bytesIn(max_bytes.trim()) }),
      };
      await files.checkHome(c.get('directory'));
      const { target } = await makeLink(rules, targetOf(c), fields, requestedPath);
      const made = { kind: 'link', value: linkOrigin + target, page: c.req.path } as const;
      if (made.value.length > LONGEST_IN_COOKIE) return page(c, made);
      showOnce(c, made);
      return `${pathOf(c)}/links?for=${kind}`;
    }),
  );

  app.post(`${PATH}/revoke`, async (c) => {
    await revokeLinks(rules, targetOf(c));
    return c.redirect(`${pathOf(c)}/links?done=revoked`, 303);
  });
}

function kindOf(c: PageContext): keyof typeof KINDS {
  return c.req.query('for') === 'upload' ? 'upload' : 'download';
}
