/** A directory's access settings besides passwords and keys: suspension, expiry and networks. */
import type { FC } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { formatMicros, type Micros } from '../../../../foundation/base/clock.ts';
import type { DirectoryRow } from '../../../../foundation/db/schema.ts';
import { changedFields, isoTime } from '../../form.ts';
import type { DirectoryProps } from '../../components/directory.tsx';
import { ActionButton, Field, Form, Was } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Facts, Time } from '../../components/values.tsx';
import type { DashboardEnv, FormFields } from '../../environment.ts';
import { onlyAdmins } from '../../limits.ts';
import { splitNetworks } from '../../words.ts';

/** Admins get forms; members only see the values. */
export const Limits: FC<DirectoryProps & { isAdmin: boolean }> = ({ isAdmin, ...shown }) => {
  const c = useRequestContext<DashboardEnv>();
  return isAdmin ? (
    <Section title="From where, and until when">
      <LimitForm {...shown} />
      <Suspension {...shown} />
    </Section>
  ) : (
    <Section title="From where, and until when" about={onlyAdmins(c, 'change it')}>
      <Facts
        of={{
          'Allowed addresses': networksOf(shown.directory).join(', ') || 'all',
          Expires: <Time at={shown.directory.expires_at} />,
        }}
      />
    </Section>
  );
};

/** The head of a suspended directory's pages has the button that resumes it. */
const Suspension: FC<DirectoryProps> = ({ directory, path }) =>
  directory.suspended === 1 ? (
    <></>
  ) : (
    <ActionButton
      action={`${path}/suspend`}
      label="Suspend"
      kind="danger"
      confirm="Live sessions end now, and logins fail until you resume the directory. Files and webhooks stay."
    />
  );

/** The stored values in the fields' format. */
function storedLimits({ expires_at, allowed_networks }: DirectoryRow) {
  return { expires_at: expiryText(expires_at), allowed_networks: networksOf({ allowed_networks }).join('\n') };
}

const LimitForm: FC<DirectoryProps> = ({ directory, path }) => {
  const stored = storedLimits(directory);
  return (
    <Form action={`${path}/access/limits`}>
      <Was of={stored} />
      <Field
        label="Allowed addresses"
        name="allowed_networks"
        value={stored.allowed_networks}
        rows={3}
        hint="One per line: 203.0.113.7 or 203.0.113.0/24. Empty: all."
      />
      <Field
        label="Expires"
        name="expires_at"
        type="datetime-local"
        value={stored.expires_at}
        hint="Live sessions end then. Empty: no end."
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
export function limitFields(fields: FormFields, directory: DirectoryRow): Record<string, unknown> {
  const seconds = (time: string) => time.replace(/:00$/, (end) => (/T\d\d:\d\d:00$/.test(time) ? '' : end));
  const given = { ...fields, ...(fields['expires_at'] && { expires_at: seconds(fields['expires_at']) }) };
  const { expires_at: time, allowed_networks: networks } = changedFields(given, storedLimits(directory));
  return {
    ...(time !== undefined && { expires_at: time === '' ? null : isoTime(time) }),
    ...(networks !== undefined && { allowed_networks: splitNetworks(networks) }),
  };
}
