/** What a directory is called, what is to be known of it, and its end. */
import type { FC } from 'hono/jsx';
import { MoreFields, NameField } from '../../components/directory-fields.tsx';
import { Field, Form } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { plainText, Text } from '../../components/text.tsx';
import { Copyable, Facts, Size, Time } from '../../components/values.tsx';
import { type FormFields, numberIn, textOrNull } from '../../form.ts';
import type { Shown } from './shown.ts';

export const Settings: FC<Shown> = ({ directory, path, given, errors }) => {
  const { name, description, external_id, max_connections } = directory;
  const stored = { name, description: description ?? '', external_id: external_id ?? '' };
  const fields = { given: { ...stored, max_connections: String(max_connections), ...given }, errors };
  return (
    <Section title="Settings">
      <Form action={`${path}/settings`}>
        <NameField {...fields} hint="The slug and the username stay as they are." />
        <MoreFields {...fields} />
        <button>Save</button>
      </Form>
    </Section>
  );
};

/** What the form changes: of a field in one line, browsers drop line breaks, which is no change. */
export function settingsFields(fields: FormFields, directory: Shown['directory']): Record<string, unknown> {
  const { name = '', external_id = '', description, max_connections } = fields;
  const isSame = (text: string, stored: string | null): boolean => text === (stored ?? '').replace(/[\r\n]/g, '');
  return {
    ...(!isSame(name, directory.name) && { name }),
    ...(!isSame(external_id, directory.external_id) && { external_id: textOrNull(external_id) }),
    description: textOrNull(description),
    max_connections: numberIn(max_connections) ?? null,
  };
}

export const Details: FC<Pick<Shown, 'directory'>> = ({ directory }) => {
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

export const Delete: FC<Pick<Shown, 'directory' | 'path' | 'errors'>> = ({ directory, path, errors }) => (
  <Section title="Delete" about="Its files go with it, its logins end at once, and nothing brings it back.">
    <Form action={`${path}/delete`}>
      <Field
        label="Type the name to delete it"
        name="confirmation"
        errors={errors}
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
