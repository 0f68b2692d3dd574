/** A directory's access settings besides passwords and keys: suspension, expiry and networks. */
import type { FC } from 'hono/jsx';
import { formatMicros, type Micros } from '../../../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../../../foundation/db/schema.ts';
import { changedFields } from '../../changed-fields.ts';
import type { DirectoryProps } from '../../components/directory.tsx';
import { ActionButton, Field, Form, Was } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Facts, Time } from '../../components/values.tsx';
import type { FormFields } from '../../environment.ts';
import { isoTime } from '../../form.ts';
import { splitNetworks } from '../../words.ts';

/** Admins get forms; members only see the values. */
export const Access: FC<DirectoryProps & { isAdmin: boolean }> = ({ isAdmin, ...shown }) =>
  isAdmin ? (
    <>
      <Section title="Access">
        <Limits {...shown} />
      </Section>
      <Suspension {...shown} />
    </>
  ) : (
    <Section title="Access" about="Only admins can change it.">
      <Facts
        of={{
          Expires: <Time at={shown.directory.expires_at} />,
          'Allowed networks': networksOf(shown.directory).join(', ') || 'all',
        }}
      />
    </Section>
  );

/** The header of a suspended directory has the button that resumes it. */
const Suspension: FC<DirectoryProps> = ({ directory, path }) =>
  directory.suspended === 1 ? (
    <></>
  ) : (
    <Section
      title="Suspend"
      about="Ends live sessions and refuses logins until you resume the directory. Files and webhooks stay."
    >
      <ActionButton
        action={`${path}/suspend`}
        label="Suspend"
        kind="danger"
        confirm="Live sessions end now, and logins are refused until you resume the directory. Files and webhooks stay."
      />
    </Section>
  );

/** The stored values in the fields' format. */
function storedLimits({ expires_at, allowed_networks }: DirectoryRow) {
  return { expires_at: expiryText(expires_at), allowed_networks: networksOf({ allowed_networks }).join('\n') };
}

const Limits: FC<DirectoryProps> = ({ directory, path }) => {
  const stored = storedLimits(directory);
  return (
    <Form action={`${path}/access`}>
      <Was of={stored} />
      <Field
        label="Expires"
        name="expires_at"
        type="datetime-local"
        value={stored.expires_at}
        hint="Live sessions end then, and logins are refused. Leave empty for no expiry."
      />
      <Field
        label="Allowed networks"
        name="allowed_networks"
        value={stored.allowed_networks}
        rows={3}
        hint="IP addresses or CIDR ranges, one per line. Leave empty to allow all."
      />
      <button>Save</button>
    </Form>
  );
};

function networksOf({ allowed_networks }: Pick<DirectoryRow, 'allowed_networks'>): string[] {
  return JSON.parse(allowed_networks) as string[];
}

/** A time as browsers write it: to the second, without the seconds if they are 0. */
function expiryText(at: Micros | null): string {
  return at === null ? '' : formatMicros(at).slice(0, 19).replace(/:00$/, '');
}

/** The form's changes, for `updateAccess`. A time that was not edited keeps its full precision. */
export function accessFields(fields: FormFields, directory: DirectoryRow): Record<string, unknown> {
  const seconds = (time: string) => time.replace(/:00$/, (end) => (/T\d\d:\d\d:00$/.test(time) ? '' : end));
  const given = { ...fields, ...(fields['expires_at'] && { expires_at: seconds(fields['expires_at']) }) };
  const { expires_at: time, allowed_networks: networks } = changedFields(given, storedLimits(directory));
  return {
    ...(time !== undefined && { expires_at: time === '' ? null : isoTime(time) }),
    ...(networks !== undefined && { allowed_networks: splitNetworks(networks) }),
  };
}
