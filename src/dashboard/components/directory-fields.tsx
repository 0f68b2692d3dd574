/** What can be said of a directory, when it is made and later. */
import type { FC } from 'hono/jsx';
import type { FormFields } from '../environment.ts';
import { Field } from './form.tsx';

export const NameField: FC<{ value?: string; hint: string }> = (props) => (
  <Field label="Name" name="name" isRequired {...props} />
);

export const MoreFields: FC<{ stored: FormFields }> = ({ stored }) => {
  const of = (name: string) => ({ name, value: stored[name] });
  return (
    <>
      <Field label="Description" {...of('description')} rows={3} />
      <Field label="External id" {...of('external_id')} hint="Your own reference. Webhooks carry it." />
      <Field label="Max connections" {...of('max_connections')} type="number" hint="At a time, 1 to 1000." />
    </>
  );
};
