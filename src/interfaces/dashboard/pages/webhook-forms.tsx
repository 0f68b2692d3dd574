/** What a directory's webhook and the account's have in common: the test, and the secret, which is hidden until the user shows it. */
import type { Hono } from 'hono';
import type { Child, FC } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { type Trial, tryWebhook } from '../../../deliveries/webhooks/try.ts';
import type { Fields } from '../../../rules/directories/fields.ts';
import type { Target } from '../../../rules/directories/target.ts';
import type { AppContext } from '../../web/context.ts';
import { ActionButton, Field, Folded, Form } from '../components/form.tsx';
import { Section } from '../components/section.tsx';
import { Copyable, Facts } from '../components/values.tsx';
import { type DashboardEnv, isAdmin, type PageContext } from '../environment.ts';
import { submitted } from '../form.ts';
import { adminOnly } from '../guard.ts';
import { onlyAdmins } from '../limits.ts';
import { showOnce, takeShownOnce } from '../after-redirect.ts';

interface Secrets {
  readonly secret: string | null;
  /** The secret that was created to follow. */
  readonly next: string | null;
}

interface WebhookOf {
  /** The route of the webhook, below which the forms are. */
  readonly route: string;
  /** The path of the page with the webhook. */
  pageOf(c: PageContext): string;
  /** The directory whose webhook a test is. */
  testOf(c: PageContext): Promise<Target> | Target;
  noteShown(c: PageContext): Promise<void>;
  /** The secrets as they are now. */
  secretsOf(c: PageContext): Promise<Secrets>;
  renew(c: PageContext, fields: Fields): Promise<unknown>;
}

/** What an action says once it is done, and why one is refused, for the page with the secret. */
export const SECRET_DONE = {
  renewed: 'The new secret is ready. Add it to your receivers, then switch to it.',
  activated: 'The new secret is active. The old one is no longer used.',
};
export const SECRET_PROBLEMS = { activate: 'There is no new secret to activate. Create one first.' };

/** `page` renders the page with the webhook, and the result of a test that was just sent. */
export function webhookForms(
  app: Hono<DashboardEnv>,
  { route, pageOf, testOf, noteShown, secretsOf, renew }: WebhookOf,
  context: AppContext,
  page: (c: PageContext, trial?: Trial) => Promise<Response>,
): void {
  const again = (c: PageContext) => page(c);

  // The result of a test is shown in the answer to the POST, since it is not stored.
  app.post(`${route}/test`, (c) =>
    submitted(c, again, async () => {
      const target = await testOf(c);
      await context.web.testSlot(target.accountId, c.env.outgoing);
      return page(c, await tryWebhook(context, target));
    }),
  );

  /**
   * Makes the page show the secrets once, and returns its path. Since a POST starts this, the secrets are in no URL and no
   * browser history. They are in the cookie: users can make cookies for themselves, so one that only asked for them would show
   * them to people who may not see them.
   */
  async function showSecrets(c: PageContext): Promise<string> {
    const { secret, next } = await secretsOf(c);
    const value = [secret, isAdmin(c) ? next : null].map((each) => each ?? '').join('\n');
    showOnce(c, { kind: 'webhook-secret', value, page: pageOf(c) });
    return pageOf(c);
  }

  app.post(`${route}/secret/show`, async (c) => {
    await noteShown(c);
    return c.redirect(await showSecrets(c), 303);
  });

  app.post(`${route}/secret`, adminOnly, (c) =>
    submitted(c, again, async ({ secret = '' }) => {
      await renew(c, secret === '' ? {} : { secret });
      return `${await showSecrets(c)}?done=renewed`;
    }),
  );

  app.post(`${route}/secret/activate`, adminOnly, (c) =>
    submitted(c, again, async () => {
      await renew(c, { activate: true });
      return `${pageOf(c)}?done=activated`;
    }),
  );
}

interface SigningSecretProps {
  /** Whether a secret was created to follow. */
  readonly hasNext: boolean;
  /** What it signs. */
  readonly about: string;
  /** The path of its forms. */
  readonly path: string;
  /** Said in place of the form that replaces the secret. */
  readonly elsewhere?: Child;
}

/** Only admins see a secret that is not active yet. */
export const SigningSecret: FC<SigningSecretProps> = ({ hasNext, about, path, elsewhere }) => {
  const c = useRequestContext<DashboardEnv>();
  const isReady = hasNext && isAdmin(c);
  const shown = takeShownOnce(c);
  const [secret = '', next = ''] = shown?.value.split('\n') ?? [];
  const value = (text: string) => (text === '' ? '••••••••' : <Copyable text={text} secret="webhook-secret" />);
  return (
    <Section title="Signing secret" about={about}>
      <Facts
        of={{
          Secret: (
            <>
              {value(secret)} {!shown && <ActionButton action={`${path}/show`} label="Show secret" />}
            </>
          ),
          'New secret': isReady ? value(next) : undefined,
        }}
      />
      {elsewhere === undefined ? (
        <Replacement path={path} mayReplace={isAdmin(c)} isReady={isReady} />
      ) : (
        <p class="quiet">{elsewhere}</p>
      )}
    </Section>
  );
};

interface ReplacementProps extends Pick<SigningSecretProps, 'path'> {
  readonly mayReplace: boolean;
  /** Whether there is a new secret to activate. */
  readonly isReady: boolean;
}

const Replacement: FC<ReplacementProps> = ({ path, mayReplace, isReady }) => {
  const c = useRequestContext<DashboardEnv>();
  return mayReplace ? (
    <>
      {isReady && (
        <>
          <p>Step 2 of 2: once your receivers accept both secrets, switch to the new one.</p>
          <ActionButton
            action={`${path}/activate`}
            label="Switch to the new secret"
            confirm="Receivers that know only the old secret will refuse webhooks."
          />
        </>
      )}
      <Folded summary={isReady ? 'Create another secret' : 'Replace the secret'} fields={['secret']}>
        <p>
          Step 1 of 2: berth shows a new secret, and still signs <code>x-service-signature</code> with the old one. Add
          the new secret to the list in your receivers and deploy them. <code>webhook-signature</code> has both
          signatures until you switch.
        </p>
        <Form action={path}>
          <Field
            label="Your own secret (optional)"
            name="secret"
            autocomplete="off"
            hint="16 to 64 characters of printable ASCII. Leave empty to generate one."
          />
          <button>Create new secret</button>
        </Form>
      </Folded>
    </>
  ) : (
    <p class="quiet">{onlyAdmins(c, 'replace the secret')}</p>
  );
};
