/** /api/v1/webhook: the account's webhook, for directories without a URL of their own. */
import * as v from 'valibot';
import {
  type AccountWebhook,
  accountWebhook,
  AccountWebhookFields,
  type AccountWebhookOptions,
  renewAccountSecret,
  setAccountWebhook,
} from '../../../rules/directories/account-webhook.ts';
import { type RenewedSecret, SecretFields } from '../../../rules/directories/webhook.ts';
import { type Endpoint, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { accountTarget } from '../own-directory.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { AccountWebhook as Shown, data, WebhookSecret } from '../schemas.ts';
import { refuseUnknown } from '../unknown-names.ts';
import { type MayReach, unreachable, warning } from '../../web/warnings.ts';

const PATH = '/api/v1/webhook';
const EXAMPLE = { data: { url: 'https://example.com/hook', secret: 'q83vASNFZ4mrze8BI0VniavN7wEjRWeJ' } };

export function accountWebhookRoutes(rules: AccountWebhookOptions, mayReach: MayReach): Route[] {
  const show: Endpoint = async (_c, { accountId }) =>
    dataResponse(shown(await accountWebhook(rules.database.reads, accountId)), 200, SECRET);

  const set: Endpoint = async (c, principal) => {
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(AccountWebhookFields.entries, fields);
    const webhook = await setAccountWebhook(rules, accountTarget(c, principal).actor, fields);
    const warnings = warning(unreachable({ webhook_url: webhook.url }, mayReach));
    return dataResponse(shown(webhook), 200, { ...SECRET, ...warnings });
  };

  const renewSecret: Endpoint = async (c, principal) => {
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming, { isOptional: true });
    refuseUnknown(SecretFields.entries, fields);
    return secretResponse(await renewAccountSecret(rules, accountTarget(c, principal, secretResponse).actor, fields));
  };

  const answer = { status: 200, description: 'The webhook', schema: data(Shown), example: EXAMPLE };
  return [
    route('GET', PATH, show, {
      id: 'getAccountWebhook',
      tag: 'Webhooks',
      summary: "Fetch the account's webhook",
      description: '`secret` is `null` until a URL is set for the first time.',
      answer,
      refusals: [],
    }),
    route('PUT', PATH, set, {
      id: 'setAccountWebhook',
      tag: 'Webhooks',
      summary: 'Set the webhook URL for all directories that have none of their own',
      description:
        "These webhooks are signed with the `secret` of the account; `directory_id` in the body names the directory. Webhooks of a directory with its own `webhook_url` are signed with its own secret only. `null` turns the account's webhook off.",
      role: 'admin',
      body: {
        schema: v.pipe(AccountWebhookFields, v.title('AccountWebhookFields')),
        example: { url: EXAMPLE.data.url },
      },
      answer: { ...answer, headers: ['Warning'] },
      refusals: [507],
    }),
    route('POST', `${PATH}/secret`, renewSecret, {
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
        example: { data: { secret: EXAMPLE.data.secret, active: false } },
      },
      refusals: [400, 413, 415, 422, 507],
    }),
  ];
}

function shown({ url, secret }: AccountWebhook): string {
  return JSON.stringify({ url, secret });
}

function secretResponse(renewed: RenewedSecret): Response {
  return dataResponse(JSON.stringify(renewed), 200, SECRET);
}
