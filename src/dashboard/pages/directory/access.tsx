/** Who may log in beside passwords and keys, and how much the directory may hold. */
import type { FC } from 'hono/jsx';
import { formatMicros, type Micros } from '../../../clock.ts';
import type { DirectoriesTable } from '../../../db/schema.ts';
import { ActionButton, Field, Form } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Facts, sizeInWords, Time } from '../../components/values.tsx';
import type { FormFields } from '../../environment.ts';
import type { DirectoryProps } from './settings.tsx';

const MIB = 2 ** 20;

/** A member sees what only an admin changes. */
export const Access: FC<DirectoryProps & { isAdmin: boolean }> = ({ isAdmin, ...shown }) => {
  const { expires_at, quota_bytes } = shown.directory;
  if (isAdmin)
    return (
      <Section title="Access">
        <Suspension {...shown} />
        <Limits {...shown} />
      </Section>
    );
  return (
    <Section title="Access" about="Only an admin of your account changes it.">
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

const Limits: FC<DirectoryProps> = ({ directory: { quota_bytes: quota, ...directory }, path }) => (
  <>
    <Form action={`${path}/access`}>
      <Field
        label="Expires (UTC)"
        name="expires_at"
        type="datetime-local"
        value={expiryText(directory.expires_at)}
        hint="From then on nobody can log in, and live sessions end. Empty means never."
      />
      <Field
        label="Allowed networks"
        name="allowed_networks"
        value={networksOf(directory).join('\n')}
        rows={3}
        hint="Addresses or CIDRs from which one may log in, one a line. Empty means from everywhere."
      />
      <button>Save</button>
    </Form>
    <h3>Quota</h3>
    <Form action={`${path}/quota`}>
      <Field
        label="Quota in MiB"
        name="max_bytes"
        value={quota === null ? '' : String(quota / MIB)}
        hint="What it may hold at most. Empty means no limit."
      />
      <button>Save</button>
    </Form>
  </>
);

function networksOf({ allowed_networks }: Pick<DirectoriesTable, 'allowed_networks'>): string[] {
  return JSON.parse(allowed_networks) as string[];
}

/** To the second, and without seconds that are 0: so do browsers. */
function expiryText(at: Micros | null): string {
  return at === null ? '' : formatMicros(at).slice(0, 19).replace(/:00$/, '');
}

/** As `AccessFields` takes it. A time that is as it was shown stays as exact as it is. */
export function accessFields(fields: FormFields, before: Micros | null): Record<string, unknown> {
  const { expires_at: time = '', allowed_networks: networks = '' } = fields;
  const seconds = /T\d\d:\d\d$/.test(time) ? ':00' : '';
  return {
    ...(time !== expiryText(before) && { expires_at: time === '' ? null : `${time}${seconds}Z` }),
    allowed_networks: networks.split(/[\s,]+/).filter((network) => network !== ''),
  };
}

/** In bytes; what is no number stays what it is, for the rules to refuse. */
export function quotaFields({ max_bytes: text = '' }: FormFields): Record<string, unknown> {
  const isNumber = /^\d{1,12}(\.\d+)?$/.test(text);
  return { quota: { max_bytes: text === '' ? null : isNumber ? Math.round(Number(text) * MIB) : text } };
}
