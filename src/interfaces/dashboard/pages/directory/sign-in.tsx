/** What customers log in with: the password, public keys, or both. */
import type { FC } from 'hono/jsx';
import type { DirectoryRow } from '../../../../foundation/db/schema.ts';
import type { ShownKey } from '../../../../rules/directories/public-keys.ts';
import type { DirectoryProps } from '../../components/directory.tsx';
import { ActionButton, Field, Form, Select } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Table } from '../../components/table.tsx';
import { Text } from '../../components/text.tsx';
import { Time } from '../../components/values.tsx';

const MODES: Readonly<Record<DirectoryRow['auth_mode'], string>> = {
  password: 'Password',
  public_key: 'Public key',
  both: 'Password or public key',
};

interface SignInProps extends DirectoryProps {
  readonly keys: readonly ShownKey[];
  readonly isAdmin: boolean;
}

export const SignIn: FC<SignInProps> = ({ directory: { auth_mode: mode }, path, keys, isAdmin }) => (
  <Section title="Who may log in" about="Applies to new logins.">
    {mode === 'public_key' && keys.length === 0 && (
      <p class="problem">Customers can log in with a public key only, and there is none: nobody can log in.</p>
    )}
    {mode === 'password' && keys.length > 0 && <p>Keys are ignored until you allow public keys.</p>}
    {!isAdmin && <p>Log in with: {MODES[mode]}</p>}
    {isAdmin && (
      <Form action={`${path}/auth-mode`}>
        <Select label="Log in with" name="auth_mode" options={MODES} value={mode} />
        <button>Save</button>
      </Form>
    )}
    <h3>Public keys</h3>
    <Table
      caption="Keys, newest first"
      columns={['Fingerprint', 'Type', 'Comment', 'Last used', ...(isAdmin ? ['Action'] : [])]}
      rows={keys.map(({ fingerprint, type, comment, last_used_at }) => [
        <code>{fingerprint}</code>,
        type,
        <Text of={comment ?? ''} />,
        <Time at={last_used_at} />,
        ...(isAdmin ? [<RemoveKey fingerprint={fingerprint} path={path} />] : []),
      ])}
    >
      <p class="quiet">No public keys yet.</p>
    </Table>
    {isAdmin && (
      <Form action={`${path}/public-keys`}>
        <Field label="Public key" name="public_key" rows={3} hint="The line of a .pub file: ssh-ed25519 AAAA…" />
        <button>Add key</button>
      </Form>
    )}
  </Section>
);

const RemoveKey: FC<{ fingerprint: string; path: string }> = ({ fingerprint, path }) => (
  <ActionButton
    action={`${path}/public-keys/remove`}
    label="Remove"
    kind="danger"
    fields={{ fingerprint }}
    confirm="Logins with this key fail from now on."
  />
);
