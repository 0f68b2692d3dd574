/** Makes, lists and revokes links for people without an SFTP client, by the same rules as the API. */
import { apiOrigin } from '../../../foundation/base/config.ts';
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { DAY, formatMicros, type Micros } from '../../../foundation/base/clock.ts';
import { requestedPath } from '../../web/requested-path.ts';
import {
  limitInWords,
  type Link,
  linkById,
  linkPath,
  linksOf,
  type MadeLink,
  makeLink,
  revokeLink,
  revokeLinks,
} from '../../../arrivals/links/links.ts';
import { displayName } from '../../../arrivals/uploads/upload-list.ts';
import { ActionButton, Field, Form, Select } from '../components/form.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Empty, Links, Pager, Section } from '../components/section.tsx';
import { Table } from '../components/table.tsx';
import { clipped, Name, Text } from '../components/text.tsx';
import { makersOf } from '../../../rules/api-keys/api-keys.ts';
import { madeBy, Secret, Time } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { bytesIn, isoTime, submitted } from '../form.ts';
import { takeShownOnce } from '../after-redirect.ts';
import { CreatingForms } from '../sent-forms.ts';

const PATH = '/dashboard/directories/:id/links';
const DONE = {
  revoked: 'All existing links have been revoked.',
  'revoked-one': 'The link has been revoked.',
};

const PAGE = 50;
/** How many characters of a path are shown. */
const PATH_LENGTH = 300;

/** A path can be chosen among those of this many uploads; at most so many are suggested. */
const LATEST = 200;
const MOST_CHOICES = 50;
/** The folders that have the file: `in/` and `in/2026/` for `in/2026/report.pdf`. */
const foldersAbove = (path: string): string[] =>
  Array.from(path.matchAll(/\//g), ({ index }) => path.slice(0, index + 1));

/** How long a link works by default. */
const WEEK: Micros = 7 * DAY;
/** How long a link may work, in days, by the form's choice. */
const DAYS: Readonly<Record<string, number>> = { 1: 1, 7: 7, 30: 30 };
const USES = { often: 'Unlimited', once: 'Once' };

const KINDS = {
  upload: {
    label: 'Request files',
    about:
      'Anyone with the link can upload here in a browser, without an account. Each file is checked and recorded, and your webhook is sent, as for an SFTP upload.',
    path: 'Where should the files go? A folder such as in/ takes files of any name and never replaces one. A path such as in/report.pdf takes that one file.',
    once: 'A link with one use takes one file, and never replaces one.',
  },
  download: {
    label: 'Share a file',
    about: 'Anyone with the link can download the file in a browser, without an account.',
    path: 'The path of the file, such as out/invoice.pdf.',
    once: 'A link with one use ends when the whole file has been downloaded.',
  },
} as const;

export function linksPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const { files, uploads } = context;
  const linkOrigin = apiOrigin(context.config);
  const sent = new CreatingForms(context);

  async function page(c: PageContext) {
    const { file, folder = '' } = c.req.query();
    const kind = kindOf(c);
    const directory = c.get('directory');
    // A link's URL has to name the machine that has the files.
    await files.checkHome(directory);
    const { reads } = context.database;
    const now = context.clock.now();
    const after = await linkById(reads, directory.id, c.req.query('after') ?? '');
    const listed = await linksOf(reads, directory.id, { now, limit: PAGE + 1, after });
    const links = listed.slice(0, PAGE);
    const makers = await makersOf(reads, c.get('user').principal.accountId, links);
    const upload = file === undefined ? undefined : await uploads.byId(directory.id, file);
    const within = Buffer.from(folder, 'base64url');
    const path = upload ? displayName(upload.path) : within.length > 0 ? `${displayName(within)}/` : '';
    const texts = KINDS[kind];
    const made = takeShownOnce(c);
    return c.render(
      <DirectoryLayout tab="Files" page="Links" done={DONE}>
        <Secret of={made} label="Your new link">
          <p class="quiet">Anyone with the link can use it until it expires or you revoke it.</p>
        </Secret>
        {made ? (
          <p>
            <a href={`?for=${kind}`}>Create another link</a>
          </p>
        ) : (
          <>
            <Links
              class="views"
              label="Kinds of links"
              links={Object.fromEntries(Object.entries(KINDS).map(([each, { label }]) => [label, `?for=${each}`]))}
              current={texts.label}
            />
            <Section title={texts.label} about={texts.about}>
              <LinkForm
                kind={kind}
                path={path}
                choices={await choicesFor(kind, directory.id)}
                until={formatMicros(now + WEEK).slice(0, 'YYYY-MM-DDTHH:MM'.length)}
              />
            </Section>
          </>
        )}
        <Section title="Active links" about="berth doesn’t store the URLs. Each is shown once, when it is created.">
          <Table
            caption="Newest first"
            columns={['Path', 'Allows', 'Expires', 'Created', 'Actions']}
            rows={links.map((link) => cellsOf(link, makers))}
          >
            <Empty title="No links">
              Links that you create appear here until they expire, are used up or are revoked.
            </Empty>
          </Table>
          <Pager
            of="links"
            first={after && `?for=${kind}`}
            next={listed.length > PAGE ? `?for=${kind}&after=${links.at(-1)?.id}` : undefined}
          />
          {links.length > 1 && (
            <ActionButton
              action="links/revoke"
              label="Revoke all links"
              kind="danger"
              confirm="Everyone who has a link to this directory needs a new one."
            />
          )}
        </Section>
      </DirectoryLayout>,
    );
  }

  /** The folders of the latest uploads, or their paths, for the path of a link. */
  async function choicesFor(kind: keyof typeof KINDS, directoryId: string): Promise<string[]> {
    const names = (await uploads.list(directoryId, { limit: LATEST })).map(({ path }) => displayName(path));
    // A name that is not UTF-8 cannot be typed.
    const known = names.filter((name) => !name.includes('\u{FFFD}'));
    const all = kind === 'download' ? known : known.flatMap(foldersAbove).toSorted();
    return [...new Set(all)].slice(0, MOST_CHOICES);
  }

  app.get(PATH, (c) => page(c));

  app.post(PATH, (c) =>
    submitted(c, page, async (given) => {
      const { path = '', max_bytes = '', expires_at = '', uses, lasts = '' } = given;
      const kind = kindOf(c);
      const days = DAYS[lasts];
      const fields = {
        for: kind,
        path,
        expires_at:
          days === undefined ? expires_at && isoTime(expires_at) : formatMicros(context.clock.now() + days * DAY),
        once: uses === 'once',
        ...(kind === 'upload' && { max_bytes: bytesIn(max_bytes.trim()) }),
      };
      await files.checkHome(c.get('directory'));
      const made = await sent.create<MadeLink>(
        c,
        given,
        (target) => makeLink(context, { ...targetOf(c), ...target }, fields, requestedPath),
        ({ target }) => ({ kind: 'link', value: linkOrigin + target, page: c.req.path }),
      );
      return `${made}?for=${kind}`;
    }),
  );

  app.post(`${PATH}/:link/revoke`, async (c) => {
    await revokeLink(context, targetOf(c), c.req.param('link'));
    return c.redirect(`${pathOf(c)}/links?done=revoked-one`, 303);
  });

  app.post(`${PATH}/revoke`, async (c) => {
    await revokeLinks(context, targetOf(c));
    return c.redirect(`${pathOf(c)}/links?done=revoked`, 303);
  });
}

interface LinkFormProps {
  readonly kind: keyof typeof KINDS;
  readonly path: string;
  /** The paths that are suggested. */
  readonly choices: readonly string[];
  /** The date that is filled in. */
  readonly until: string;
}

const LinkForm: FC<LinkFormProps> = ({ kind, path, choices, until }) => {
  const { given } = useRequestContext<DashboardEnv>().get('refused') ?? {};
  const chosen = given ? (given['lasts'] ?? 'date') : '7';
  const texts = KINDS[kind];
  return (
    <Form action={`?for=${kind}`} isOnce>
      <Field
        label={kind === 'upload' ? 'Folder or file' : 'Path'}
        name="path"
        value={path}
        choices={choices}
        placeholder={kind === 'upload' ? 'in/' : 'out/invoice.pdf'}
        hint={texts.path}
        isRequired
        isFirst
      />
      {kind === 'upload' && (
        <Field label="Maximum file size" name="max_bytes" value="100 MB" hint="Such as 500 MB or 2.5 GB." isRequired />
      )}
      <fieldset class="radios inline">
        <legend>Works for</legend>
        {Object.entries({ 1: '1 day', 7: '7 days', 30: '30 days', date: 'until a date' }).map(([lasts, text]) => (
          <label>
            <input type="radio" name="lasts" value={lasts} checked={lasts === chosen} /> {text}
          </label>
        ))}
      </fieldset>
      <div class="own">
        <Field label="Expires" name="expires_at" type="datetime-local" value={until} isRequired />
      </div>
      <Select label="Uses" name="uses" options={USES} />
      <p class="hint">{texts.once}</p>
      <div class="actions">
        <button>Create link</button>
        <a href="files">All files</a>
      </div>
    </Form>
  );
};

function cellsOf(link: Link, makers: ReadonlyMap<string, string>) {
  const { id, kind, max_bytes, once, expires_at, inserted_at, created_by } = link;
  const limits = [
    kind === 'upload' ? `upload, up to ${limitInWords(max_bytes ?? 0)}` : kind,
    ...(once === 1 ? ['once'] : []),
  ];
  const path = kind === 'password' ? 'The password' : clipped(linkPath(link), PATH_LENGTH);
  return [
    <Name of={path} />,
    limits.join(', '),
    <Time at={expires_at} />,
    <>
      <Time at={inserted_at} />
      <Text of={madeBy(created_by, makers)} />
    </>,
    <ActionButton
      action={`links/${id}/revoke`}
      label="Revoke"
      kind="danger"
      about={`link to ${path}`}
      confirm="It stops working immediately. This can’t be undone."
    />,
  ];
}

function kindOf(c: PageContext): keyof typeof KINDS {
  return c.req.query('for') === 'download' || c.req.query('file') !== undefined ? 'download' : 'upload';
}
