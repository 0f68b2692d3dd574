/** A directory's settings: name, quota and deletion. */
import type { AppContext } from '../../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { LRUCache } from 'lru-cache';
import type { DirectoryRow } from '../../../../foundation/db/schema.ts';
import { deleteDirectory } from '../../../../rules/directories/delete.ts';
import { setQuota, updateBasics } from '../../../../rules/directories/update.ts';
import { wrongField } from '../../../../foundation/base/errors.ts';
import { bytesIn, changedFields, numberIn, submitted, textOrNull, UNITS } from '../../form.ts';
import { type DirectoryProps, MoreFields, NameField } from '../../components/directory.tsx';
import { Field, Form, Was } from '../../components/form.tsx';
import { DirectoryLayout } from '../../components/layout.tsx';
import { Section } from '../../components/section.tsx';
import { plainText } from '../../../../foundation/base/text.ts';
import { Text } from '../../components/text.tsx';
import { Copyable, Facts, Size, sizeInWords, Time } from '../../components/values.tsx';
import { type DashboardEnv, type FormFields, isAdmin, type PageContext, pathOf, targetOf } from '../../environment.ts';
import { maySend, onlyAdmins } from '../../limits.ts';
import { directoryActions } from './actions.ts';

const DONE = {
  saved: 'Saved.',
};

/** How long the answer whether quotas can be set is cached, since each check may start a process. */
const OBSTACLE_TTL_MS = 60_000;

export function settingsPage(app: Hono<DashboardEnv>, context: AppContext): void {
  const obstacles = new LRUCache<string, { readonly obstacle: string | undefined }>({
    max: 100,
    ttl: OBSTACLE_TTL_MS,
  });

  /** Why no quota can be set on the directory's node. */
  async function quotaObstacle(directory: DirectoryRow): Promise<string | undefined> {
    const known = obstacles.get(directory.node);
    if (known) return known.obstacle;
    const obstacle = await context.host.quotaObstacle(directory);
    obstacles.set(directory.node, { obstacle });
    return obstacle;
  }

  async function page(c: PageContext) {
    const shown = { directory: c.get('directory'), path: pathOf(c) };
    const obstacle = isAdmin(c) ? await quotaObstacle(shown.directory) : undefined;
    return c.render(
      <DirectoryLayout tab="Settings" done={DONE}>
        <Settings {...shown} />
        <Quota {...shown} mayChange={isAdmin(c)} obstacle={obstacle} />
        <Details directory={shown.directory} />
        {maySend(c) && <Delete {...shown} />}
      </DirectoryLayout>,
    );
  }

  const { action, adminAction } = directoryActions(app, page, 'Settings');

  action('settings', 'saved', (c, target, given) =>
    updateBasics(context, target, settingsFields(given, c.get('directory'))),
  );
  adminAction('quota', 'saved', (c, target, given) =>
    setQuota(context, target, quotaFields(given, c.get('directory'))),
  );

  app.post('/dashboard/directories/:id/delete', (c) =>
    submitted(c, page, async ({ confirmation = '' }) => {
      if (!isNameTyped(confirmation, c.get('directory').name))
        throw wrongField('confirmation', 'sentence', 'The name doesn’t match.');
      await deleteDirectory(context, targetOf(c));
      return '/dashboard/directories?done=deleted';
    }),
  );
}

function storedSettings({ name, description, external_id, max_connections }: DirectoryRow) {
  return {
    name,
    description: description ?? '',
    external_id: external_id ?? '',
    max_connections: String(max_connections),
  };
}

const Settings: FC<DirectoryProps> = ({ directory, path }) => {
  const stored = storedSettings(directory);
  return (
    <Section title="Settings">
      <Form action={`${path}/settings`}>
        <Was of={stored} />
        <NameField value={stored.name} hint="The slug and the username stay as they are." />
        <MoreFields stored={stored} />
        <button>Save</button>
      </Form>
    </Section>
  );
};

/** The form's changes, for `updateBasics`. */
function settingsFields(fields: FormFields, directory: DirectoryRow): Record<string, unknown> {
  const changed = changedFields(fields, storedSettings(directory));
  const { name, description, external_id, max_connections } = changed;
  return {
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description: textOrNull(description) }),
    ...(external_id !== undefined && { external_id: textOrNull(external_id) }),
    ...(max_connections !== undefined && { max_connections: numberIn(max_connections) ?? null }),
  };
}

const Details: FC<Pick<DirectoryProps, 'directory'>> = ({ directory }) => {
  const { id, slug, storage_bytes, retention_days, inserted_at, updated_at, metadata } = directory;
  return (
    <Section title="Details">
      <Facts
        of={{
          ID: <Copyable text={id} label="ID" />,
          Slug: <code>{slug}</code>,
          Storage: <Size bytes={storage_bytes} />,
          Retention: retention_days === 0 ? 'files are kept' : `${retention_days} days`,
          Created: <Time at={inserted_at} />,
          Changed: <Time at={updated_at} />,
          Metadata: metadata === '{}' ? 'none' : <Text of={metadata} />,
        }}
      />
    </Section>
  );
};

const Delete: FC<DirectoryProps> = ({ directory, path }) => (
  <Section title="Delete" about="Deletes the files, ends all sessions and revokes the login. This can’t be undone.">
    <Form action={`${path}/delete`}>
      <Field
        label="Type the name to delete it"
        name="confirmation"
        hint={`Its name is ${plainText(directory.name)}`}
        autocomplete="off"
        isRequired
      />
      <button class="danger">Delete directory</button>
    </Form>
  </Section>
);

/** Whether the name was typed as it is displayed. The number of blanks does not matter. */
function isNameTyped(typed: string, name: string): boolean {
  const displayed = (text: string): string => plainText(text.replace(/\s+/g, ' ')).normalize().trim();
  return displayed(typed) === displayed(name);
}

// A directory's quota.

interface QuotaProps extends DirectoryProps {
  readonly mayChange: boolean;
  /** Why no quota can be set; undefined if one can. */
  readonly obstacle: string | undefined;
}

/** Admins get a form, if quotas can be set; members only see the value. */
const Quota: FC<QuotaProps> = ({ mayChange, obstacle, directory, path }) => {
  const c = useRequestContext<DashboardEnv>();
  const stored = storedQuota(directory);
  const { quota_bytes } = directory;
  if (!mayChange)
    return (
      <Section title="Quota" id="quota" about={onlyAdmins(c, 'change it')}>
        <p>{quota_bytes === null ? 'No limit' : sizeInWords(quota_bytes)}</p>
      </Section>
    );
  if (obstacle !== undefined && quota_bytes === null) return <></>;
  return (
    <Section title="Quota" id="quota">
      <Form action={`${path}/quota`}>
        <Was of={stored} />
        <Field
          label="Quota"
          name="max_bytes"
          value={stored.max_bytes}
          placeholder="500 MB"
          hint="The most that the directory can hold, such as 500 MB or 2.5 GiB. Leave empty for no limit."
        />
        <button>Save</button>
      </Form>
    </Section>
  );
};

function storedQuota({ quota_bytes: bytes }: DirectoryRow) {
  if (bytes === null) return { max_bytes: '' };
  const exact = ['TiB', 'GiB', 'MiB', 'KiB', 'TB', 'GB', 'MB', 'KB', 'B'].find(
    (unit) =>
      Number.isInteger((bytes / (UNITS[unit.toUpperCase()] ?? 1)) * 100) && bytes >= (UNITS[unit.toUpperCase()] ?? 1),
  );
  return { max_bytes: `${bytes / (UNITS[exact?.toUpperCase() ?? 'B'] ?? 1)} ${exact ?? 'B'}` };
}

/** The form's changes, for `setQuota`. */
function quotaFields(fields: FormFields, directory: DirectoryRow): Record<string, unknown> {
  const { max_bytes: text } = changedFields(fields, storedQuota(directory));
  return { max_bytes: text === undefined ? directory.quota_bytes : bytesIn(text.trim()) };
}
