/** With what a customer logs in: the password, public keys, or both. */
import type { FC } from 'hono/jsx';
import type { DirectoriesTable } from '../../../db/schema.ts';
import type { ShownKey } from '../../../directories/public-keys.ts';
import { ActionButton, Field, Form, Select } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Row, Table } from '../../components/table.tsx';
import { Text } from '../../components/text.tsx';
import { Time } from '../../components/values.tsx';
import type { Shown } from './shown.ts';

const MODES: Readonly<Record<DirectoriesTable['auth_mode'], string>> = {
  password: 'Password',
  public_key: 'Public key',
  both: 'Password or public key',
};

export const SignIn: FC<Shown & { keys: readonly ShownKey[] }> = ({ keys, ...shown }) => {
  const { directory, path, isAdmin, given, errors } = shown;
  const { auth_mode: mode } = directory;
  return (
    <Section title="Login" about="A change counts from the next login on; sessions that are under way go on.">
      {mode === 'public_key' && keys.length === 0 && (
        <p class="problem">Only public keys let in, and there is none: nobody can log in.</p>
      )}
      {mode === 'password' && keys.length > 0 && <p>Only the password lets in: the keys wait for another mode.</p>}
      {!isAdmin && <p>Log in with: {MODES[mode]}</p>}
      {isAdmin && (
        <>
          <Form action={`${path}/auth-mode`}>
            <Select label="Log in with" name="auth_mode" options={MODES} value={given['auth_mode'] ?? mode} />
            <button>Save</button>
          </Form>
          <ActionButton
            action={`${path}/password`}
            label="New password"
            confirm="The old password is refused from the next login on."
          />
        </>
      )}
      <h3>Public keys</h3>
      {keys.length === 0 ? <p class="quiet">There are none.</p> : <Keys keys={keys} {...shown} />}
      {isAdmin && (
        <Form action={`${path}/public-keys`}>
          <Field
            label="Public key"
            name="public_key"
            value={given['public_key']}
            errors={errors}
            rows={3}
            hint="The line of a .pub file: ssh-ed25519 AAAA… It is added to those that are there."
          />
          <button>Add key</button>
        </Form>
      )}
    </Section>
  );
};

const Keys: FC<Shown & { keys: readonly ShownKey[] }> = ({ keys, path, isAdmin }) => {
  const columns = ['Fingerprint', 'Type', 'Comment', 'Last used', ...(isAdmin ? ['Action'] : [])];
  const remove = (fingerprint: string) => (
    <ActionButton
      action={`${path}/public-keys/remove`}
      label="Remove"
      kind="danger"
      fields={{ fingerprint }}
      confirm="Nobody logs in with this key any more."
    />
  );
  return (
    <Table caption="Keys, newest first" columns={columns}>
      {keys.map(({ fingerprint, type, comment, last_used_at: at }) => {
        const cells = [<code>{fingerprint}</code>, type, <Text of={comment ?? ''} />, <Time at={at} />];
        return <Row of={isAdmin ? [...cells, remove(fingerprint)] : cells} />;
      })}
    </Table>
  );
};
