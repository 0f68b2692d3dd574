/** Where webhooks go, as one choice, with a test. A directory's and the account's are the same form. */
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import type { DashboardEnv, FormFields } from '../environment.ts';
import { ActionButton, Field, Form, Was } from './form.tsx';
import { Section } from './section.tsx';

/** `account`: to the account's URL. `own`: to a URL of its own. `off`: none are sent. */
export type Choice = 'account' | 'own' | 'off';

/** The choice in a form. Without one, the URL tells. */
export function choiceIn({ to }: FormFields, url: string): Choice {
  if (to === 'account' || to === 'own' || to === 'off') return to;
  return url === '' ? 'account' : 'own';
}

interface WebhookTargetProps {
  readonly about: string;
  /** The path of the form; the test's is below it. */
  readonly path: string;
  /** The field of the URL. */
  readonly name: 'url' | 'webhook_url';
  readonly url: string | null;
  /** The text of each choice. */
  readonly choices: Readonly<Partial<Record<Choice, Child>>>;
  readonly chosen: Choice;
  /** Why webhooks to this URL will fail. */
  readonly warning: string | undefined;
  /** Whether there is anything to test. */
  readonly canTest: boolean;
}

/** Its children replace the form where the user may not change it. */
export const WebhookTarget: FC<PropsWithChildren<WebhookTargetProps>> = ({
  about,
  path,
  name,
  url,
  choices,
  chosen,
  warning,
  canTest,
  children,
}) => {
  const { given } = useRequestContext<DashboardEnv>().get('refused') ?? {};
  const now = given?.[name] === undefined ? chosen : choiceIn(given, given[name]);
  return (
    <Section title="Where webhooks go" id="webhook" about={about}>
      {children ?? (
        <Form action={path}>
          <Was of={{ [name]: url ?? '', to: chosen }} />
          <fieldset class="radios">
            <legend class="unseen">Where webhooks go</legend>
            {Object.entries(choices).map(([choice, text]) => (
              <label>
                <input type="radio" name="to" value={choice} checked={choice === now} /> {text}
              </label>
            ))}
          </fieldset>
          <div class="own">
            <Field
              label="Webhook URL"
              name={name}
              type="url"
              value={url ?? ''}
              placeholder="https://example.com/hooks/sftp"
            />
          </div>
          <button>Save</button>
        </Form>
      )}
      {canTest && <ActionButton action={`${path}/test`} label="Send test" busy="Sending…" />}
      {warning !== undefined && <p class="problem">Saved, but nothing will arrive there: {warning}.</p>}
    </Section>
  );
};
