/** A directory's quota. */
import type { FC } from 'hono/jsx';
import type { DirectoryRow } from '../../../../foundation/db/schema.ts';
import { changedFields } from '../../changed-fields.ts';
import type { DirectoryProps } from '../../components/directory.tsx';
import { Field, Form, Was } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { sizeInWords } from '../../components/values.tsx';
import type { FormFields } from '../../environment.ts';
import { bytesIn, UNITS } from '../../form.ts';

interface QuotaProps extends DirectoryProps {
  readonly isAdmin: boolean;
  /** Why no quota can be set; undefined if one can. */
  readonly obstacle: string | undefined;
}

/** Admins get a form, if quotas can be set; members only see the value. */
export const Quota: FC<QuotaProps> = ({ isAdmin, obstacle, directory, path }) => {
  const stored = storedQuota(directory);
  const { quota_bytes } = directory;
  if (!isAdmin)
    return (
      <Section title="Quota" id="quota" about="Only admins can change it.">
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
export function quotaFields(fields: FormFields, directory: DirectoryRow): Record<string, unknown> {
  const { max_bytes: text } = changedFields(fields, storedQuota(directory));
  return { max_bytes: text === undefined ? directory.quota_bytes : bytesIn(text.trim()) };
}
