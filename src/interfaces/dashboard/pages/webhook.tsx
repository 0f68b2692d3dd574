/** A directory's webhook: its URL and a test, its secret, its latest deliveries, and code that verifies it. */
import type { AppContext } from '../../web/context.ts';
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import { accountWebhook, noteSecretShown, renewSecret, updateWebhook } from '../../../rules/directories/webhook.ts';
import { liveDirectory } from '../../../rules/directories/target.ts';
import { wrongField } from '../../../foundation/base/errors.ts';
import type { DirectoryRow } from '../../../foundation/db/schema.ts';
import { unreachable } from '../../web/warnings.ts';
import { receiverIfAny, receiverUrl } from '../../../deliveries/webhooks/receiver-of.ts';
import type { Trial } from '../../../deliveries/webhooks/try.ts';
import { DeliveryList, TrialResult } from '../components/exchange.tsx';
import { changedFields, submitted } from '../form.ts';
import { type Choice, choiceIn, WebhookTarget } from '../components/webhook-target.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Folds, Section } from '../components/section.tsx';
import { Name } from '../components/text.tsx';
import { accountTarget, type DashboardEnv, hasAccount, type PageContext, pathOf, targetOf } from '../environment.ts';
import { deliveriesOf } from '../directories-view.ts';
import { deliveriesPage } from '../../../deliveries/webhooks/delivery-list.ts';
import { deliveryPage } from './delivery.tsx';
import { SECRET_DONE, SECRET_PROBLEMS, SigningSecret, webhookForms } from './webhook-forms.tsx';
import { readFileSync } from 'node:fs';
import { Code } from '../components/values.tsx';

const PATH = '/dashboard/directories/:id/webhook';

/** How many deliveries this page lists. */
const LATEST = 5;

const DONE = {
  own: 'The URL is saved.',
  off: 'Webhooks are off for this directory.',
  account: 'This directory uses the account’s webhook.',
  ...SECRET_DONE,
};

export function webhookPages(app: Hono<DashboardEnv>, context: AppContext): void {
  const { database, mayReach } = context;
  const { reads } = database;
  const snippets = readSnippets();

  async function page(c: PageContext, trial?: Trial) {
    const directory = c.get('directory');
    const { id, webhook_url: url } = directory;
    const receiver = await receiverIfAny(reads, directory);
    const path = `${pathOf(c)}/webhook`;
    const owner = { accountId: directory.account_id, directoryId: id };
    const { deliveries } = await deliveriesPage(reads, { owner }, { limit: LATEST });
    const { url: accountUrl } = await accountWebhook(reads, directory.account_id);
    const isOfAccount = url === null && receiver !== undefined;
    return c.render(
      <DirectoryLayout tab="Webhook" done={DONE} problems={SECRET_PROBLEMS}>
        {trial && <TrialResult trial={trial} />}
        <WebhookTarget
          about="berth sends a signed POST request there for each file that has arrived."
          path={path}
          name="webhook_url"
          url={url}
          choices={{
            account: hasAccount(c) ? <AccountsUrl of={accountUrl} /> : 'To the account’s URL',
            own: 'To a URL of its own',
            off: 'Nowhere: webhooks are off for this directory, and pending ones fail',
          }}
          chosen={choiceOf(directory)}
          warning={unreachable({ webhook_url: url }, mayReach)}
          canTest={receiver !== undefined}
        />
        {isOfAccount && !hasAccount(c) ? (
          <Section title="Signing secret" about={SIGNED_BY.account} />
        ) : (
          <SigningSecret
            hasNext={(receiver ?? directory).next_webhook_secret !== null}
            path={`${path}/secret`}
            about={isOfAccount ? SIGNED_BY.account : receiver ? SIGNED_BY.directory : SIGNED_BY.nothing}
            elsewhere={
              isOfAccount ? (
                <>
                  Replace it on the <a href="/dashboard/account#webhook">Account page</a>.
                </>
              ) : undefined
            }
          />
        )}
        <Section title="Latest deliveries">
          <DeliveryList of={deliveries} isOne>
            <p class="quiet">{receiver ? 'Tests and deliveries appear here.' : 'Save a URL to receive webhooks.'}</p>
          </DeliveryList>
          {deliveries.length > 0 && <a href={deliveriesOf(id)}>All deliveries</a>}
        </Section>
        <Verification snippets={snippets} />
      </DirectoryLayout>,
    );
  }

  app.get(PATH, (c) => page(c));

  app.post(PATH, (c) =>
    submitted(
      c,
      (again) => page(again),
      async (given) => {
        const directory = c.get('directory');
        const url = (given['webhook_url'] ?? '').trim();
        const to = choiceIn(given, url);
        if (to === 'own' && url === '') throw wrongField('webhook_url', 'blank');
        const stored = { webhook_url: directory.webhook_url ?? '', to: choiceOf(directory) };
        const changed = changedFields({ ...given, webhook_url: to === 'own' ? url : stored.webhook_url, to }, stored);
        if (Object.keys(changed).length > 0) await updateWebhook(context, targetOf(c), TARGETS[to](url));
        return `${c.req.path}?done=${to}`;
      },
    ),
  );

  webhookForms(
    app,
    {
      route: PATH,
      pageOf: (c) => `${pathOf(c)}/webhook`,
      testOf: (c) => targetOf(c),
      async noteShown(c) {
        const directory = c.get('directory');
        const isOfAccount = directory.webhook_url === null && (await receiverUrl(reads, directory)) !== null;
        await noteSecretShown(context, isOfAccount ? accountTarget(c) : targetOf(c));
      },
      // The account's are for those who have the whole account.
      async secretsOf(c) {
        const directory = await liveDirectory(reads, targetOf(c));
        const receiver = hasAccount(c) ? await receiverIfAny(reads, directory) : undefined;
        const { webhook_secret: secret, next_webhook_secret: next } = receiver ?? directory;
        return { secret, next };
      },
      renew: (c, fields) => renewSecret(context, targetOf(c), fields),
    },
    context,
    page,
  );
  app.get(`${PATH}/deliveries`, (c) => c.redirect(deliveriesOf(c.get('directory').id), 303));
  deliveryPage(app, context);
}

/** What is said about the secret, by whose it is. */
const SIGNED_BY = {
  account: 'This directory’s webhooks go to the account’s URL. The account’s secret signs them.',
  directory: 'It signs this directory’s webhooks, so that your receiver can tell who sent them.',
  nothing: 'It signs this directory’s webhooks once the directory has a URL of its own.',
};

/** The fields of each choice, for `updateWebhook`. */
const TARGETS = {
  account: () => ({ webhook_url: null, uses_account_webhook: true }),
  own: (url: string) => ({ webhook_url: url }),
  off: () => ({ webhook_url: null, uses_account_webhook: false }),
};

function choiceOf({ webhook_url, uses_account_webhook }: DirectoryRow): Choice {
  if (webhook_url !== null) return 'own';
  return uses_account_webhook === 1 ? 'account' : 'off';
}

const AccountsUrl: FC<{ of: string | null }> = ({ of: url }) =>
  url === null ? (
    <>To the account’s URL, which is not set: no webhooks are sent</>
  ) : (
    <>
      To the account’s URL, <Name of={url} href="/dashboard/account#webhook" />
    </>
  );

// Code that verifies a webhook, in four languages: the files of `snippets/`, which the tests run.

const FILES = { 'verify.js': 'Node.js', 'verify.py': 'Python', 'verify.php': 'PHP', 'verify.go': 'Go' };

/** Read from `src/`, which an installation has beside the compiled program. */
const FOLDER = new URL('../../../../src/interfaces/dashboard/snippets/', import.meta.url);

interface Snippet {
  readonly language: string;
  readonly text: string;
}

function readSnippets(): Snippet[] {
  return Object.entries(FILES).map(([file, language]) => ({
    language,
    text: readFileSync(new URL(file, FOLDER), 'utf8'),
  }));
}

const Verification: FC<{ snippets: readonly Snippet[] }> = ({ snippets }) => (
  <Section title="Verify webhooks">
    <p>
      Compute the signature of the raw body before you parse it, and compare it with the header{' '}
      <code class="whole">x-service-signature</code>. Respond with 2xx within 5 seconds, and do the work afterwards.
    </p>
    <Folds
      name="language"
      of={Object.fromEntries(
        snippets.map(({ language, text }) => [language, <Code text={text} label={`the ${language} code`} />]),
      )}
    />
  </Section>
);
