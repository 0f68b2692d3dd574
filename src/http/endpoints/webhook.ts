/** The webhook of a directory: trying it, and a new secret for it. */
import type { ChangeDependencies } from '../../directories/change.ts';
import type { DirectoryQueries } from '../../directories/view.ts';
import { renewWebhookSecret, type RenewedSecret, SecretFields } from '../../directories/webhook-secret.ts';
import { type TrialRules, tryWebhook } from '../../webhooks/try.ts';
import { type Endpoint, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { ownTarget } from '../own-directory.ts';
import { dataResponse } from '../responses.ts';
import { type Route, route } from '../route.ts';
import { data, TestOutcome, WebhookSecret } from '../schemas.ts';
import type { Turn } from '../turns.ts';
import { refuseUnknown } from '../unknown-names.ts';

export function webhookRoutes(
  directories: DirectoryQueries,
  rules: ChangeDependencies & TrialRules,
  turn: Turn,
): Route[] {
  const tryOne: Endpoint<'/:id'> = async (c, principal) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    await turn(principal.accountId, c.env.outgoing);
    const { ok: delivered, status, error, latency } = (await tryWebhook(rules, target)).answer;
    return dataResponse(JSON.stringify({ delivered, status, error, duration_ms: latency / 1000 }));
  };

  const renewSecret: Endpoint<'/:id'> = async (c, principal, keep) => {
    const target = await ownTarget(directories, c, principal, c.req.param('id'));
    requireAdmin(principal);
    const fields = await readFields(c.env.incoming, { isOptional: true });
    refuseUnknown(SecretFields.entries, fields);
    return secretResponse(await renewWebhookSecret(rules, target, fields, keep(secretResponse)));
  };

  return [
    route('POST', '/api/v1/directories/:id/webhook/test', tryOne, {
      id: 'testWebhook',
      tag: 'Webhooks',
      summary: 'Send one webhook as a test',
      description:
        'A signed `file.uploaded` of a file that is not there, with `"test": true`, sent once while you wait, for up to 6 seconds. The answer is what the receiver said, or in `error` why it was not heard. 422 while the directory has no webhook URL.',
      answer: {
        status: 200,
        description: 'What the receiver said',
        schema: data(TestOutcome),
        example: { data: { delivered: true, status: 204, error: null, duration_ms: 48.2 } },
      },
      refusals: [404, 422],
    }),
    route('POST', '/api/v1/directories/:id/webhook_secret', renewSecret, {
      id: 'renewWebhookSecret',
      tag: 'Webhooks',
      summary: 'Replace the webhook secret, in two steps',
      description:
        'First without `activate`: the answer has the new secret, and from now on `webhook-signature` is made with both, so that receivers can be changed one after the other. Asked again, it replaces the new one. Then with `"activate": true`: `x-service-signature` is made with the new one, and the old one ends. An own `secret` has 16 to 64 characters of printable ASCII; with `activate` it takes the place of the old one at once.',
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

function secretResponse(renewed: RenewedSecret): Response {
  return dataResponse(JSON.stringify(renewed), 200, { 'cache-control': 'no-store' });
}
