/** A directory's access settings besides passwords and keys: suspension, expiry, networks and quota. */
import type { FC } from 'hono/jsx';
import { formatMicros, type Micros } from '../../../base/clock.ts';
import type { DirectoriesTable } from '../../../db/schema.ts';
import { changedFields } from '../../changed-fields.ts';
import type { DirectoryProps } from '../../components/directory.tsx';
import { ActionButton, Field, Form, Was } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Facts, sizeInWords, Time } from '../../components/values.tsx';
import type { FormFields } from '../../environment.ts';
import { bytesIn, isoTime, UNITS } from '../../form.ts';
import { splitNetworks } from '../../words.ts';

interface AccessProps extends DirectoryProps {
  readonly isAdmin: boolean;
  /** Why no quota can be set; undefined if one can. */
  readonly quotaObstacle: string | undefined;
}

/** Admins get forms; members only see the values. */
export const Access: FC<AccessProps> = ({ isAdmin, quotaObstacle, ...shown }) => {
  const { expires_at, quota_bytes } = shown.directory;
  if (isAdmin)
    return (
      <>
        <Section title="Access">
          <Suspension {...shown} />
          <Limits {...shown} />
        </Section>
        {(quotaObstacle === undefined || quota_bytes !== null) && <Quota {...shown} />}
      </>
    );
  return (
    <Section title="Access" about="Only an admin of your account can change these.">
      <Facts
        of={{
          Expires: <Time at={expires_at} />,
          'Allowed networks': networksOf(shown.directory).join(', ') || 'all',
          Quota: quota_bytes === null ? 'none' : sizeInWords(quota_bytes),
        }}
      />
    </Section>
  );
};

const Suspension: FC<DirectoryProps> = ({ directory, path }) =>
  directory.suspended === 1 ? (
    <div class="actions">
      Nobody can log in. <ActionButton action={`${path}/resume`} label="Resume" />
    </div>
  ) : (
    <ActionButton
      action={`${path}/suspend`}
      label="Suspend"
      kind="danger"
      confirm="Live sessions end now, and nobody can log in until you resume it. Files and webhooks stay."
    />
  );

/** The stored values in the fields' format. */
function storedLimits({ expires_at, allowed_networks }: DirectoriesTable) {
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
        hint="From then on nobody can log in, and live sessions end. Leave it empty to never expire."
      />
      <Field
        label="Allowed networks"
        name="allowed_networks"
        value={stored.allowed_networks}
        rows={3}
        hint="IP addresses or CIDR ranges, one per line. Leave it empty to allow all."
      />
      <button>Save</button>
    </Form>
  );
};

const Quota: FC<DirectoryProps> = ({ directory, path }) => {
  const stored = storedQuota(directory);
  return (
    <Section title="Quota">
      <Form action={`${path}/quota`}>
        <Was of={stored} />
        <Field
          label="Quota"
          name="max_bytes"
          value={stored.max_bytes}
          placeholder="500 MB"
          hint="The most that the directory can hold, such as 500 MB or 2.5 GiB. Leave it empty for no limit."
        />
        <button>Save</button>
      </Form>
    </Section>
  );
};

function networksOf({ allowed_networks }: Pick<DirectoriesTable, 'allowed_networks'>): string[] {
  return JSON.parse(allowed_networks) as string[];
}

/** A time as browsers write it: to the second, without the seconds if they are 0. */
function expiryText(at: Micros | null): string {
  return at === null ? '' : formatMicros(at).slice(0, 19).replace(/:00$/, '');
}

/** The form's changes, for `updateAccess`. A time that was not edited keeps its full precision. */
export function accessFields(fields: FormFields, directory: DirectoriesTable): Record<string, unknown> {
  const seconds = (time: string) => time.replace(/:00$/, (end) => (/T\d\d:\d\d:00$/.test(time) ? '' : end));
  const given = { ...fields, ...(fields['expires_at'] && { expires_at: seconds(fields['expires_at']) }) };
  const { expires_at: time, allowed_networks: networks } = changedFields(given, storedLimits(directory));
  return {
    ...(time !== undefined && { expires_at: time === '' ? null : isoTime(time) }),
    ...(networks !== undefined && { allowed_networks: splitNetworks(networks) }),
  };
}

function storedQuota({ quota_bytes: bytes }: DirectoriesTable) {
  if (bytes === null) return { max_bytes: '' };
  const exact = ['TiB', 'GiB', 'MiB', 'KiB', 'TB', 'GB', 'MB', 'KB', 'B'].find(
    (unit) =>
      Number.isInteger((bytes / (UNITS[unit.toUpperCase()] ?? 1)) * 100) && bytes >= (UNITS[unit.toUpperCase()] ?? 1),
  );
  return { max_bytes: `${bytes / (UNITS[exact?.toUpperCase() ?? 'B'] ?? 1)} ${exact ?? 'B'}` };
}

/** The form's changes, for `setQuota`. */
export function quotaFields(fields: FormFields, directory: DirectoriesTable): Record<string, unknown> {
  const { max_bytes: text } = changedFields(fields, storedQuota(directory));
  return { max_bytes: text === undefined ? directory.quota_bytes : bytesIn(text.trim()) };
}
