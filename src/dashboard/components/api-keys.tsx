/** API keys in a table, a new one with its first command, and the form that makes one. */
import type { FC } from 'hono/jsx';
import type { ApiKey } from '../../accounts/api-keys.ts';
import type { FieldErrors } from '../../errors.ts';
import type { FormFields } from '../form.ts';
import { Field, Form, Select } from './form.tsx';
import { Text } from './text.tsx';
import { Badge, Copyable, Time } from './values.tsx';

/** Its only appearance. */
export const NewKey: FC<{ apiKey: string; host: string }> = ({ apiKey, host }) => (
  <section class="secret" aria-label="Your new API key">
    <p>This is your new key. It is shown this once: copy it now.</p>
    <p>
      <Copyable text={apiKey} label="API key" secret="api-key" />
    </p>
    <p>Try it:</p>
    <p>
      <Copyable text={`curl -H 'Authorization: Bearer ${apiKey}' https://${host}/api/v1/directories`} label="Command" />
    </p>
  </section>
);

export const KeyTable: FC<{ keys: readonly ApiKey[]; mayRevoke: boolean }> = ({ keys, mayRevoke }) => {
  if (keys.length === 0) return <p>There are no keys yet. A program needs one to call the API.</p>;
  return (
    <div class="scroll" tabindex={0}>
      <table>
        <caption>Keys of your account, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Role</th>
            <th scope="col">Created</th>
            <th scope="col">Last used</th>
            <th scope="col">State</th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <KeyRow apiKey={key} mayRevoke={mayRevoke} />
          ))}
        </tbody>
      </table>
    </div>
  );
};

const KeyRow: FC<{ apiKey: ApiKey; mayRevoke: boolean }> = ({ apiKey, mayRevoke }) => {
  const { id, name, role, inserted_at, created_by, last_used_at, revoked_at } = apiKey;
  return (
    <tr class={revoked_at === null ? undefined : 'quiet'}>
      <td>
        <Text of={name} />
      </td>
      <td>{role}</td>
      <td>
        <Time at={inserted_at} />
        {created_by !== null && (
          <>
            {' '}
            by <Text of={created_by.replace(/^(user|operator):/, '')} />
          </>
        )}
      </td>
      <td>
        <Time at={last_used_at} />
      </td>
      <td>
        {revoked_at !== null && (
          <>
            <Badge kind="quiet" text="revoked" /> <Time at={revoked_at} />
          </>
        )}
        {revoked_at === null && !mayRevoke && <Badge kind="good" text="active" />}
        {revoked_at === null && mayRevoke && (
          <form class="action" action={`/dashboard/api-keys/${id}/revoke`}>
            <button class="danger">Revoke</button>
          </form>
        )}
      </td>
    </tr>
  );
};

const ROLES = { member: 'Member: everything but how one logs in to a directory', admin: 'Admin: everything' };

export const NewKeyForm: FC<{ given: FormFields; errors: FieldErrors | undefined }> = ({ given, errors }) => (
  <>
    <h2>New key</h2>
    <Form>
      <Field
        label="Name"
        name="name"
        value={given['name']}
        errors={errors}
        hint="What it is for, such as the program that uses it."
        isRequired
      />
      <Select label="Role" name="role" options={ROLES} value={given['role']} />
      <button>Create key</button>
    </Form>
  </>
);
