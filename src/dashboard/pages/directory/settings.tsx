/** What a directory is called, what is to be known of it, and its end. */
import type { FC } from 'hono/jsx';
import type { DirectoriesTable } from '../../../db/schema.ts';
import { MoreFields, NameField } from '../../components/directory.tsx';
import { Field, Form } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { plainText, Text } from '../../components/text.tsx';
import { Copyable, Facts, Size, Time } from '../../components/values.tsx';
import type { FormFields } from '../../environment.ts';
import { numberIn, textOrNull } from '../../form.ts';

export interface DirectoryProps {
  readonly directory: DirectoriesTable;
  /** Of the page; its forms post to paths below it. */
  readonly path: string;
}

export const Settings: FC<DirectoryProps> = ({ directory, path }) => {
  const { name, description, external_id, max_connections } = directory;
  const stored = {
    description: description ?? '',
    external_id: external_id ?? '',
    max_connections: String(max_connections),
  };
  return (
    <Section title="Settings">
      <Form action={`${path}/settings`}>
        <NameField value={name} hint="The slug and the username stay as they are." />
        <MoreFields stored={stored} />
        <button>Save</button>
      </Form>
    </Section>
  );
};

/** What the form changes: of a field in one line, browsers drop line breaks, which is no change. */
export function settingsFields(fields: FormFields, directory: DirectoriesTable): Record<string, unknown> {
  const { name = '', external_id = '', description, max_connections } = fields;
  const isSame = (text: string, stored: string | null): boolean => text === (stored ?? '').replace(/[\r\n]/g, '');
  return {
    ...(!isSame(name, directory.name) && { name }),
    ...(!isSame(external_id, directory.external_id) && { external_id: textOrNull(external_id) }),
    description: textOrNull(description),
    max_connections: numberIn(max_connections) ?? null,
  };
}

export const Details: FC<Pick<DirectoryProps, 'directory'>> = ({ directory }) => {
  const { id, slug, storage_bytes, retention_days, inserted_at, updated_at, metadata } = directory;
  return (
    <Section title="Details">
      <Facts
        of={{
          Id: <Copyable text={id} label="Id" />,
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

export const Delete: FC<DirectoryProps> = ({ directory, path }) => (
  <Section title="Delete" about="Its files go with it, its logins end at once, and nothing brings it back.">
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

/** As it is shown, whatever blanks and hidden characters it has. */
export function isNameTyped(typed: string, name: string): boolean {
  const shown = (text: string): string => plainText(text.replace(/\s+/g, ' ')).normalize().trim();
  return shown(typed) === shown(name);
}
