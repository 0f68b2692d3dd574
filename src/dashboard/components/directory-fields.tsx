/** What can be said of a directory, when it is made and later. */
import type { FC } from 'hono/jsx';
import type { FieldErrors } from '../../errors.ts';
import type { FormFields } from '../form.ts';
import { Field } from './form.tsx';

interface DirectoryFieldsProps {
  readonly given: FormFields;
  readonly errors: FieldErrors | undefined;
}

export const NameField: FC<DirectoryFieldsProps & { hint: string }> = ({ given, errors, hint }) => (
  <Field label="Name" name="name" value={given['name']} errors={errors} hint={hint} isRequired />
);

export const MoreFields: FC<DirectoryFieldsProps> = ({ given, errors }) => {
  const of = (name: string) => ({ name, value: given[name], errors });
  return (
    <>
      <Field label="Description" {...of('description')} rows={3} />
      <Field label="External id" {...of('external_id')} hint="Your own reference. Webhooks carry it." />
      <Field label="Max connections" {...of('max_connections')} type="number" hint="At a time, 1 to 1000." />
    </>
  );
};
