/** The secret that webhooks are signed with: hidden until it is asked for, and replaced in two steps. */
import type { FC } from 'hono/jsx';
import type { DirectoriesTable } from '../../db/schema.ts';
import type { FieldErrors } from '../../errors.ts';
import type { FormFields } from '../form.ts';
import { ActionButton, Field, Form } from './form.tsx';
import { Section } from './section.tsx';
import { Copyable, Facts } from './values.tsx';

interface WebhookSecretProps {
  readonly directory: Pick<DirectoriesTable, 'webhook_secret' | 'next_webhook_secret'>;
  /** The Webhook page's. */
  readonly path: string;
  readonly isShown: boolean;
  /** Whether the user may replace it, and see the one that is to follow. */
  readonly mayReplace: boolean;
  readonly given: FormFields;
  readonly errors?: FieldErrors | undefined;
}

export const WebhookSecret: FC<WebhookSecretProps> = ({ directory, path, isShown, mayReplace, given, errors }) => {
  const { webhook_secret: current, next_webhook_secret } = directory;
  const next = mayReplace ? next_webhook_secret : null;
  const value = (secret: string) => (isShown ? <Copyable text={secret} secret="webhook-secret" /> : '••••••••');
  return (
    <Section title="Secret" about="Every webhook is signed with it, so that your receiver knows who sent it.">
      <Facts of={{ 'Webhook secret': value(current), 'New secret': next === null ? undefined : value(next) }} />
      {!isShown && <ActionButton action={`${path}/secret/show`} label="Show secret" />}
      {next !== null && (
        <>
          <p>
            Step 2 of 2: once your receivers have the new secret, activate it. Both signatures are then made with it
            alone, and the old one ends.
          </p>
          <ActionButton action={`${path}/secret/activate`} label="Activate new secret" />
        </>
      )}
      {mayReplace ? (
        <details open={errors?.['secret'] !== undefined}>
          <summary>{next === null ? 'Replace the secret' : 'Make another new secret'}</summary>
          <p>
            Step 1 of 2: berth shows the new secret, and from then on <code>webhook-signature</code> is made with both,
            so that receivers can be changed one after the other. <code>x-service-signature</code> stays with the old
            one.
          </p>
          <Form action={`${path}/secret`}>
            <Field
              label="Own secret"
              name="secret"
              value={given['secret']}
              errors={errors}
              autocomplete="off"
              hint="Optional: 16 to 64 characters of printable ASCII. Left empty, berth makes one."
            />
            <button>Make new secret</button>
          </Form>
        </details>
      ) : (
        <p class="quiet">Only an admin of your account replaces the secret.</p>
      )}
    </Section>
  );
};
