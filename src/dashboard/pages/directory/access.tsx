/** Who may log in beside passwords and keys, and how much the directory may hold. */
import type { FC } from 'hono/jsx';
import { formatMicros, type Micros } from '../../../clock.ts';
import { ActionButton, Field, Form } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Facts, sizeInWords, Time } from '../../components/values.tsx';
import type { FormFields } from '../../form.ts';
import type { Shown } from './shown.ts';

const MIB = 2 ** 20;

export const Access: FC<Shown> = (shown) => {
  const { directory, path, isAdmin } = shown;
  const { suspended, expires_at, quota_bytes } = directory;
  const facts = {
    Expires: <Time at={expires_at} />,
    'Allowed networks': networksOf(directory).join(', ') || 'all',
    Quota: quota_bytes === null ? 'none' : sizeInWords(quota_bytes),
  };
  return (
    <Section title="Access" about={isAdmin ? undefined : 'Only an admin of your account changes it.'}>
      {!isAdmin && <Facts of={facts} />}
      {isAdmin && suspended === 1 && (
        <div class="actions">
          Nobody can log in. <ActionButton action={`${path}/resume`} label="Resume" />
        </div>
      )}
      {isAdmin && suspended === 0 && (
        <div class="actions">
          <ActionButton
            action={`${path}/suspend`}
            label="Suspend"
            kind="danger"
            confirm="Live sessions end now, and nobody can log in until you resume it. Files and webhooks stay."
          />
        </div>
      )}
      {isAdmin && <Limits {...shown} />}
    </Section>
  );
};

const Limits: FC<Shown> = ({ directory, path, given, errors }) => {
  const stored: FormFields = {
    expires_at: expiryText(directory.expires_at),
    allowed_networks: networksOf(directory).join('\n'),
    max_bytes: directory.quota_bytes === null ? '' : String(directory.quota_bytes / MIB),
  };
  const of = (name: string) => ({ name, value: given[name] ?? stored[name], errors });
  return (
    <>
      <Form action={`${path}/access`}>
        <Field
          label="Expires (UTC)"
          {...of('expires_at')}
          type="datetime-local"
          hint="From then on nobody can log in, and live sessions end. Empty means never."
        />
        <Field
          label="Allowed networks"
          {...of('allowed_networks')}
          rows={3}
          hint="Addresses or CIDRs from which one may log in, one a line. Empty means from everywhere."
        />
        <button>Save</button>
      </Form>
      <h3>Quota</h3>
      <Form action={`${path}/quota`}>
        <Field label="Quota in MiB" {...of('max_bytes')} hint="What it may hold at most. Empty means no limit." />
        <button>Save</button>
      </Form>
    </>
  );
};

function networksOf({ allowed_networks }: Shown['directory']): string[] {
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
