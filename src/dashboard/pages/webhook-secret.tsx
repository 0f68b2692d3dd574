/** The secret that signs webhooks: hidden until the user shows it, and replaced in two steps. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { DirectoriesTable } from '../../db/schema.ts';
import type { ChangeOptions } from '../../directories/change.ts';
import { noteSecretShown, renewWebhookSecret } from '../../directories/webhook.ts';
import { ActionButton, Field, Folded, Form } from '../components/form.tsx';
import { Section } from '../components/section.tsx';
import { Copyable, Facts } from '../components/values.tsx';
import { type DashboardEnv, type PageContext, pathOf, targetOf } from '../environment.ts';
import { submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { showOnce } from '../after-redirect.ts';

const PATH = '/dashboard/directories/:id/webhook/secret';

/** `page` renders the Webhook page. */
export function secretForms(
  app: Hono<DashboardEnv>,
  rules: ChangeOptions,
  page: (c: PageContext) => Promise<Response>,
): void {
  /**
   * Makes the Webhook page show the secrets once, and returns its path. Since a POST starts this, the secrets are in no URL and no
   * browser history. The page reads them from the database.
   */
  function shown(c: PageContext): string {
    const path = `${pathOf(c)}/webhook`;
    showOnce(c, { kind: 'webhook-secret', value: '', page: path });
    return path;
  }

  app.post(`${PATH}/show`, async (c) => {
    await noteSecretShown(rules, targetOf(c));
    return c.redirect(shown(c), 303);
  });

  app.post(PATH, adminOnly, (c) =>
    submitted(c, page, async ({ secret = '' }) => {
      await renewWebhookSecret(rules, targetOf(c), secret === '' ? {} : { secret });
      return `${shown(c)}?done=renewed`;
    }),
  );

  app.post(`${PATH}/activate`, adminOnly, (c) =>
    submitted(c, page, async () => {
      await renewWebhookSecret(rules, targetOf(c), { activate: true });
      return `${pathOf(c)}/webhook?done=activated`;
    }),
  );
}

interface WebhookSecretProps {
  readonly directory: Pick<DirectoriesTable, 'webhook_secret' | 'next_webhook_secret'>;
  /** The path of the Webhook page. */
  readonly path: string;
  readonly isShown: boolean;
  /** Whether the user may replace the secret, and see one that is not active yet. */
  readonly mayReplace: boolean;
}

export const WebhookSecret: FC<WebhookSecretProps> = ({ directory, path, isShown, mayReplace }) => {
  const next = mayReplace ? directory.next_webhook_secret : null;
  const value = (secret: string) => (isShown ? <Copyable text={secret} secret="webhook-secret" /> : '••••••••');
  return (
    <Section title="Secret" about="berth signs every webhook with it, so that your receiver can tell who sent it.">
      <Facts
        of={{
          'Webhook secret': value(directory.webhook_secret),
          'New secret': next === null ? undefined : value(next),
        }}
      />
      {!isShown && <ActionButton action={`${path}/secret/show`} label="Show secret" />}
      {next !== null && (
        <>
          <p>
            Step 2 of 2: once your receivers have the new secret, activate it. Both signatures are then made with the
            new secret only.
          </p>
          <ActionButton
            action={`${path}/secret/activate`}
            label="Activate new secret"
            confirm="Receivers that still check with the old secret reject webhooks from now on."
          />
        </>
      )}
      {mayReplace ? (
        <Replacement action={`${path}/secret`} isFirst={next === null} />
      ) : (
        <p class="quiet">Only an admin of your account can replace the secret.</p>
      )}
    </Section>
  );
};

const Replacement: FC<{ action: string; isFirst: boolean }> = ({ action, isFirst }) => (
  <Folded summary={isFirst ? 'Replace the secret' : 'Create another new secret'} fields={['secret']}>
    <p>
      Step 1 of 2: berth shows the new secret and signs <code>webhook-signature</code> with both from then on, so that
      you can update receivers one after the other. <code>x-service-signature</code> still uses the old one.
    </p>
    <Form action={action}>
      <Field
        label="Own secret"
        name="secret"
        autocomplete="off"
        hint="Optional: 16 to 64 characters of printable ASCII. Leave it empty and berth generates one."
      />
      <button>Create new secret</button>
    </Form>
  </Folded>
);
