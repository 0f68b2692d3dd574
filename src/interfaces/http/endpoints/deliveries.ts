/** Deliveries of a directory's webhooks: lists them with their attempts, and sends them again. */
import type { AppContext } from '../../web/context.ts';
import { formatMicros } from '../../../foundation/base/clock.ts';
import { announce } from '../../../arrivals/uploads/announce.ts';
import {
  type Delivery,
  DELIVERY_STATES,
  deliveryById,
  listDeliveries,
} from '../../../deliveries/webhooks/delivery-list.ts';
import { checked, INVALID, orBlank, timestamp } from '../../../foundation/base/validation.ts';
import { replay, replayFailed } from '../../../deliveries/webhooks/replay.ts';
import { type Endpoint, ownDirectory, ownTarget } from '../access.ts';
import { readFields } from '../body.ts';
import { pageOf, readPage, type RequestedPage } from '../page.ts';
import { dataResponse } from '../../web/responses.ts';
import { refuseUnknown, type Route, route } from '../route.ts';
import { data, Delivery as Shown } from '../schemas.ts';
import * as v from 'valibot';

/** The limit for requests without one, since there may be very many deliveries. */
const LIMIT = 100;

const Filter = v.object({ state: v.optional(v.picklist(DELIVERY_STATES, INVALID)) });

const Since = v.object({ since: timestamp }, orBlank);

const EXAMPLE = {
  id: 'fdde0852-7e73-4ab5-959b-884007b21082',
  event: 'file.uploaded',
  upload_id: '0b8f2f5e-6f0e-4f39-9f0e-7a3a0f3f6c55',
  state: 'failed',
  attempts: [{ at: '2026-11-20T22:16:39.401220Z', status: 503, error: null, duration_ms: 12.41 }],
  next_attempt_at: null,
  url: 'https://example.com/hook',
  inserted_at: '2026-11-20T22:16:39.364712Z',
};
const ANSWER = {
  status: 202,
  description: 'The new delivery',
  schema: data(Shown),
  example: { data: { ...EXAMPLE, state: 'pending', attempts: [], next_attempt_at: '2026-11-20T22:16:39.364712Z' } },
};

export function deliveryRoutes(context: AppContext): Route[] {
  const list: Endpoint<'/:id'> = async (c, principal) => {
    const { id } = await ownDirectory(context, principal, c.req.param('id'));
    const { state } = checked(Filter, c.req.query());
    const read = ({ limit = LIMIT, after }: RequestedPage) =>
      listDeliveries(context.database.reads, id, { state, limit, after });
    const { rows, headers } = await readPage(c, read, ({ inserted_at }) => inserted_at, LIMIT);
    return dataResponse(JSON.stringify(rows.map(deliveryJson)), 200, headers);
  };

  const show: Endpoint<'/:id/:delivery_id'> = async (c, principal) => {
    const { id } = await ownDirectory(context, principal, c.req.param('id'));
    return dataResponse(
      JSON.stringify(deliveryJson(await deliveryById(context.database.reads, id, c.req.param('delivery_id')))),
    );
  };

  const replayOne: Endpoint<'/:id/:delivery_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal, accepted);
    return accepted(await replay(context, target, c.req.param('delivery_id')));
  };

  const replayMany: Endpoint<'/:id'> = async (c, principal) => {
    const answer = (replayed: { count: number }): Response => dataResponse(JSON.stringify(replayed), 202);
    const target = await ownTarget(context, c, principal, answer);
    const fields = await readFields(c.env.incoming);
    refuseUnknown(Since.entries, fields);
    const { since } = checked(Since, fields);
    return answer(await replayFailed(context, target, { since }));
  };

  const announceOne: Endpoint<'/:id/:upload_id'> = async (c, principal) => {
    const target = await ownTarget(context, c, principal, accepted);
    return accepted(await announce(context, target, c.req.param('upload_id')));
  };

  return [
    route('GET', '/api/v1/directories/:id/deliveries', list, {
      id: 'listDeliveries',
      tag: 'Webhooks',
      summary: 'List the deliveries of webhooks, newest first',
      description:
        'At most 100 at a time, or `limit`; the `Link` header has the next page. `pending` deliveries are still being sent or retried; `failed` ones have no attempts left. `url` is the address of the latest attempt. Finished deliveries are removed with the history.',
      query: v.object({ ...Filter.entries, ...pageOf(LIMIT) }),
      answer: {
        status: 200,
        description: 'The deliveries',
        schema: data(v.array(Shown)),
        example: { data: [EXAMPLE] },
      },
      refusals: [404, 422],
    }),
    // The pattern excludes `replay`, which is not an id.
    route('GET', '/api/v1/directories/:id/deliveries/:delivery_id{[0-9a-fA-F-]+}', show, {
      id: 'getDelivery',
      tag: 'Webhooks',
      summary: 'Fetch one delivery of a webhook',
      description:
        'The id is the `webhook-id` that your receiver gets. `webhook-signature` covers it, so you can trust it, and `upload_id` names the file.',
      answer: { status: 200, description: 'The delivery', schema: data(Shown), example: { data: EXAMPLE } },
      refusals: [404],
    }),
    route('POST', '/api/v1/directories/:id/deliveries/:delivery_id/replay', replayOne, {
      id: 'replayDelivery',
      tag: 'Webhooks',
      summary: 'Send a delivery again',
      description:
        'Creates a new delivery with the same body and a new `webhook-id`. It goes to the current URL, signed with the current secret. 422 if the delivery is pending or the directory has no webhook URL.',
      answer: ANSWER,
      refusals: [404, 422, 507],
    }),
    route('POST', '/api/v1/directories/:id/deliveries/replay', replayMany, {
      id: 'replayFailedDeliveries',
      tag: 'Webhooks',
      summary: 'Resend all deliveries that have failed since a given time',
      description:
        'They are sent in the background, oldest first. `count` is the number of deliveries that this request has queued. Deliveries that were already replayed, or are queued for it, are skipped.',
      body: { schema: Since, example: { since: '2026-11-20T00:00:00Z' } },
      answer: {
        status: 202,
        description: 'The number of deliveries',
        schema: data(v.strictObject({ count: v.pipe(v.number(), v.integer(), v.minValue(0)) })),
        example: { data: { count: 12 } },
      },
      refusals: [400, 404, 413, 415, 422, 507],
    }),
    route('POST', '/api/v1/directories/:id/uploads/:upload_id/announce', announceOne, {
      id: 'announceUpload',
      tag: 'Webhooks',
      summary: "Send a file's webhook again",
      description:
        'Also works for a file that was uploaded while the directory had no webhook URL. The webhook describes the file as it is now. 422 if there is no webhook URL.',
      answer: ANSWER,
      refusals: [404, 422, 507],
    }),
  ];
}

function accepted(delivery: Delivery): Response {
  return dataResponse(JSON.stringify(deliveryJson(delivery)), 202);
}

function deliveryJson({ id, event, upload_id, state, attempts, next_attempt_at, url, inserted_at }: Delivery) {
  return {
    id,
    event,
    upload_id,
    state,
    attempts: attempts.map(({ started_at, status, error, latency_us }) => ({
      at: formatMicros(started_at),
      status,
      error,
      duration_ms: latency_us === null ? null : latency_us / 1000,
    })),
    next_attempt_at: next_attempt_at === null ? null : formatMicros(next_attempt_at),
    url,
    inserted_at: formatMicros(inserted_at),
  };
}
