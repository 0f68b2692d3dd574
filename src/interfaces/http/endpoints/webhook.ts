/** The webhook of a directory and that of the account: its URL, a test, and a new secret. */
import type { AppContext } from '../../web/context.ts';
import {
  type AccountWebhook,
  accountWebhook,
  AccountWebhookFields,
  EventsFields,
  eventsOf,
  type RenewedSecret,
  renewSecret,
  SecretFields,
  setAccountWebhook,
  setEvents,
  updateWebhook,
  type WantedEvents,
  WebhookFields,
} from '../../../rules/directories/webhook.ts';
import { liveDirectory } from '../../../rules/directories/target.ts';
import { type Destined, receiverUrl } from '../../../deliveries/webhooks/receiver-of.ts';
import { tryWebhook } from '../../../deliveries/webhooks/try.ts';
import { accountTarget, type Endpoint, isOfDirectory, ownerIn, ownTarget, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { refuseUnknown, type Route, route } from '../route.ts';
import {
  AccountWebhook as ShownOfAccount,
  data,
  DirectoryWebhook,
  TestOutcome,
  WantedEvents as Shown,
  WebhookSecret,
} from '../schemas.ts';
import { unreachable, warning } from '../../web/warnings.ts';

const PATH = '/api/v1/directories/:id/webhook';
const OF_ACCOUNT = '/api/v1/webhook';
const EXAMPLE_OF_ACCOUNT = { data: { url: 'https://example.com/hook', secret: 'q83vASNFZ4mrze8BI0VniavN7wEjRWeJ' } };
const EXAMPLE = {
  data: { webhook_url: null, uses_account_webhook: true, sends_to: 'https://example.com/hook' },
};

export function webhookRoutes(context: AppContext): Route[] {
  const { web, mayReach } = context;
  async function webhookJson(directory: Destined): Promise<string> {
    const { webhook_url, uses_account_webhook } = directory;
    const sends_to = await receiverUrl(context.database.reads, directory);
    return JSON.stringify({ webhook_url, uses_account_webhook: uses_account_webhook === 1, sends_to });
  }

  const show: Endpoint<'/:id'> = async (c, { accountId }) =>
    dataResponse(await webhookJson(await liveDirectory(context.database.reads, { accountId, id: c.req.param('id') })));

  const update: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(WebhookFields.entries, fields);
    const directory = await updateWebhook(context, target, fields);
    return dataResponse(await webhookJson(directory), 200, warning(unreachable(fields, mayReach)));
  };

  const tryOne: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal);
    await web.testSlot(principal.accountId, c.env.outgoing);
    const { ok: delivered, status, error, latency } = (await tryWebhook(context, target)).answer;
    return dataResponse(JSON.stringify({ delivered, status, error, duration_ms: latency / 1000 }));
  };

  const answer = {
    status: 200,
    description: 'Where webhooks are sent',
    schema: data(DirectoryWebhook),
    example: EXAMPLE,
  };
  return [
    route('GET', PATH, show, {
      id: 'getWebhook',
      tag: 'Webhooks',
      summary: "Show where a directory's webhooks are sent",
      description:
        "`sends_to` is `webhook_url` or, without one, the URL of the account's webhook. It is `null` if no webhooks are sent.",
      answer,
      refusals: [404],
    }),
    route('PATCH', PATH, update, {
      id: 'updateWebhook',
      tag: 'Webhooks',
      summary: "Set where a directory's webhooks are sent, or turn them off",
      description:
        'Changes the given fields. `{"webhook_url": null, "uses_account_webhook": false}` turns webhooks off for this directory, even if the account has a webhook URL. Pending deliveries then fail; you can replay them later.',
      body: { schema: WebhookFields, example: { webhook_url: null, uses_account_webhook: false } },
      answer: { ...answer, headers: ['Warning'] },
      refusals: [404, 507],
    }),
    route('POST', `${PATH}/test`, tryOne, {
      id: 'testWebhook',
      tag: 'Webhooks',
      summary: 'Send one webhook as a test',
      description:
        'Sends a signed `file.uploaded` with `"test": true`, for a file that does not exist. It is sent once, while you wait for up to 6 seconds. The response contains what the receiver returned or, in `error`, why there was no response. 422 while the directory\'s `sends_to` is `null`.',
      answer: {
        status: 200,
        description: 'What the receiver returned',
        schema: data(TestOutcome),
        example: { data: { delivered: true, status: 204, error: null, duration_ms: 48.2 } },
      },
      refusals: [404, 422, 507],
    }),
    route('POST', '/api/v1/directories/:id/webhook_secret', renewing(context), {
      id: 'renewWebhookSecret',
      tag: 'Webhooks',
      summary: 'Replace the webhook secret, in two steps',
      description:
        'First, send the request without `activate`. The response contains the new secret, and from then on `webhook-signature` has a signature with each of the two secrets, so that you can update receivers one after the other. Repeating this step replaces the new secret. Then send `"activate": true`: `x-service-signature` uses the new secret, and the old one is no longer used. To use a `secret` of your own, send 16 to 64 characters of printable ASCII; with `activate` it replaces the old one immediately.',
      role: 'admin',
      body: { schema: SecretFields, example: { activate: false }, isOptional: true },
      answer: {
        status: 200,
        description: 'The secret, and whether it is in use',
        schema: data(WebhookSecret),
        example: { data: { secret: 'q83vASNFZ4mrze8BI0VniavN7wEjRWeJ', active: false } },
      },
      refusals: [400, 404, 413, 415, 422, 507],
    }),
  ];
}

export function accountWebhookRoutes(context: AppContext): Route[] {
  const show: Endpoint = async (_c, { accountId }) =>
    dataResponse(shownOfAccount(await accountWebhook(context.database.reads, accountId)), 200, SECRET);

  const set: Endpoint = async (c, principal) => {
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(AccountWebhookFields.entries, fields);
    const webhook = await setAccountWebhook(context, accountTarget(c, principal), fields);
    const warnings = warning(unreachable({ webhook_url: webhook.url }, context.mayReach));
    return dataResponse(shownOfAccount(webhook), 200, { ...SECRET, ...warnings });
  };

  const answer = { status: 200, description: 'The webhook', schema: data(ShownOfAccount), example: EXAMPLE_OF_ACCOUNT };
  return [
    route('GET', OF_ACCOUNT, show, {
      id: 'getAccountWebhook',
      tag: 'Webhooks',
      summary: "Fetch the account's webhook",
      description: '`secret` is `null` until a URL is set for the first time.',
      answer,
      refusals: [],
    }),
    route('PUT', OF_ACCOUNT, set, {
      id: 'setAccountWebhook',
      tag: 'Webhooks',
      summary: 'Set the webhook URL for all directories that have none of their own',
      description:
        "These webhooks are signed with the `secret` of the account; `directory_id` in the body names the directory. Webhooks of a directory with its own `webhook_url` are signed with its own secret only. `null` turns the account's webhook off.",
      role: 'admin',
      body: {
        schema: AccountWebhookFields,
        example: { url: EXAMPLE_OF_ACCOUNT.data.url },
      },
      answer: { ...answer, headers: ['Warning'] },
      refusals: [507],
    }),
    route('POST', `${OF_ACCOUNT}/secret`, renewing(context), {
      id: 'renewAccountWebhookSecret',
      tag: 'Webhooks',
      summary: "Replace the secret of the account's webhook, in two steps",
      description: 'Works like replacing the secret of a directory.',
      role: 'admin',
      body: { schema: SecretFields, example: { activate: false }, isOptional: true },
      answer: {
        status: 200,
        description: 'The secret, and whether it is in use',
        schema: data(WebhookSecret),
        example: { data: { secret: EXAMPLE_OF_ACCOUNT.data.secret, active: false } },
      },
      refusals: [400, 413, 415, 422, 507],
    }),
  ];
}

function shownOfAccount({ url, secret }: AccountWebhook): string {
  return JSON.stringify({ url, secret });
}

/** Renews the secret of the directory in the path, or of the account. */
function renewing(context: AppContext): Endpoint {
  return async (c, principal) => {
    const owner = await ownerIn(context, c, principal, secretResponse);
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming, { isOptional: true });
    refuseUnknown(SecretFields.entries, fields);
    return secretResponse(await renewSecret(context, owner, fields));
  };
}

function secretResponse(renewed: RenewedSecret): Response {
  return dataResponse(JSON.stringify(renewed), 200, SECRET);
}

// …/webhook/events: the events besides uploads that a directory or the account subscribes to.

const EVENTS_OF_DIRECTORY = '/api/v1/directories/:id/webhook/events';
const EVENTS_OF_ACCOUNT = '/api/v1/webhook/events';
const EVENTS = ['file.uploaded', 'file.deleted', 'upload.failed'] as const;

const ABOUT =
  '`file.uploaded` is always among them. Each event is documented under Webhooks. It is sent to the webhook URL if there is one, and appears in the list of deliveries and in the feed of events. Receivers should ignore events that they do not know.';

export function wantedEventRoutes(context: AppContext): Route[] {
  const eventsResponse = (wanted: WantedEvents): Response => dataResponse(JSON.stringify(wanted));

  const show: Endpoint = async (c, { accountId }) =>
    eventsResponse(
      await eventsOf(context.database.reads, isOfDirectory(c) ? { accountId, id: c.req.param('id') } : { accountId }),
    );

  const set: Endpoint = async (c, principal) => {
    const owner = await ownerIn(context, c, principal);
    if (owner.id === undefined) requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(EventsFields.entries, fields);
    return eventsResponse(await setEvents(context, owner, fields));
  };

  const answer = (inherited: boolean) => ({
    status: 200,
    description: 'The events',
    schema: data(Shown),
    example: { data: { events: inherited ? ['file.uploaded'] : [...EVENTS], inherited } },
  });
  const body = { schema: EventsFields, example: { events: EVENTS.slice(1) } };
  return [
    route('GET', EVENTS_OF_DIRECTORY, show, {
      id: 'getEvents',
      tag: 'Webhooks',
      summary: 'Show the events that a directory subscribes to',
      answer: answer(true),
      refusals: [404],
    }),
    route('PUT', EVENTS_OF_DIRECTORY, set, {
      id: 'setEvents',
      tag: 'Webhooks',
      summary: 'Subscribe a directory to events besides uploads',
      description: `${ABOUT} \`null\` means the events of the account, which is the default for a directory.`,
      body,
      answer: answer(false),
      refusals: [404, 507],
    }),
    route('GET', EVENTS_OF_ACCOUNT, show, {
      id: 'getAccountEvents',
      tag: 'Webhooks',
      summary: 'Show the events that the account subscribes to',
      answer: answer(false),
      refusals: [],
    }),
    route('PUT', EVENTS_OF_ACCOUNT, set, {
      id: 'setAccountEvents',
      tag: 'Webhooks',
      summary: 'Set default events for the account',
      description: `${ABOUT} \`null\` means no other events.`,
      role: 'admin',
      body,
      answer: answer(false),
      refusals: [507],
    }),
  ];
}
