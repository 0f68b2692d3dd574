/** The form that makes a directory: a name is enough. */
import type { FC } from 'hono/jsx';
import type { FieldErrors } from '../../errors.ts';
import type { FormFields } from '../form.ts';
import { MoreFields, NameField } from './directory-fields.tsx';
import { Field, Form } from './form.tsx';
import { Section } from './section.tsx';

export const NewDirectory: FC<{ given: FormFields; errors: FieldErrors | undefined }> = ({ given, errors }) => (
  <Section title="New directory" id="new" about="It is live at once, with a username and a password of its own.">
    <Form action="/dashboard/directories">
      <NameField given={given} errors={errors} hint="A customer or a purpose, such as Acme Corp." />
      <details open={Object.keys(errors ?? {}).some((name) => name !== 'name')}>
        <summary>More settings</summary>
        <MoreFields given={{ max_connections: '10', ...given }} errors={errors} />
        <Field
          label="Retention days"
          name="retention_days"
          type="number"
          value={given['retention_days'] ?? '0'}
          errors={errors}
          hint="Older files are deleted; 0 keeps them. It cannot be changed later."
        />
      </details>
      <button>Create directory</button>
    </Form>
  </Section>
);
