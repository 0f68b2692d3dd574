/** GET /api/v1/events: the feed of what happened in all directories of the account. */
import type { AppContext } from '../../web/context.ts';
import * as v from 'valibot';
import { formatMicros } from '../../../foundation/base/clock.ts';
import { eventsAfter, type NumberedEvent } from '../../../rules/history/events.ts';
import { checked, INVALID, wholeNumberText } from '../../../foundation/base/validation.ts';
import type { Endpoint } from '../access.ts';
import { UPLOADED } from '../openapi/webhooks.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { data, Event } from '../schemas.ts';

const EVENTS = '/api/v1/events';
const LIMIT = 100;
const MAX_LIMIT = 1000;

const Query = v.object({
  after: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^\d{1,15}$/, INVALID),
      v.description(
        'The highest `sequence` that you have processed. Without it, the feed begins with the oldest event.',
      ),
    ),
  ),
  limit: v.optional(v.pipe(wholeNumberText(1, MAX_LIMIT), v.description(`At most this many. Without it, ${LIMIT}.`))),
});

const EXAMPLE = {
  sequence: 4711,
  event: 'file.uploaded',
  at: UPLOADED.uploaded_at,
  directory_id: UPLOADED.directory_id,
  upload_id: '5f0c9f6e-0c0b-4c0e-9f44-5a6d1a3b7c21',
  data: UPLOADED,
};

export function eventRoutes({ database }: AppContext): Route[] {
  const list: Endpoint = async (c, { accountId, scope }) => {
    const { after = '0', limit = LIMIT } = checked(Query, c.req.query());
    const page = { after: Number(after), limit: limit + 1, only: scope.directories };
    const events = await eventsAfter(database, accountId, page);
    const hasMore = events.length > limit;
    events.length = Math.min(events.length, limit);
    const next = `${EVENTS}?limit=${limit}&after=${events.at(-1)?.sequence}`;
    return dataResponse(`[${events.map(eventJson).join(',')}]`, 200, hasMore ? { link: `<${next}>; rel="next"` } : {});
  };

  return [
    route('GET', EVENTS, list, {
      id: 'listEvents',
      isNarrowed: true,
      tag: 'Events',
      summary: "List the account's events, oldest first",
      description:
        'For programs that poll instead of receiving webhooks: one request finds the new uploads of all directories. ' +
        'Remember the highest `sequence` that you have processed, and send it as `after` the next time. ' +
        'Numbers only grow: after reading up to N, continue from N and you miss nothing. ' +
        '`data` is the body of the event’s webhook, whether or not there is a webhook URL. Later versions may add values of `event`: ignore those that you do not know. ' +
        'Events are kept as long as the history. 410 if events after `after` are no longer stored, or were lost when a backup was restored: `error` says where to continue.',
      query: Query,
      answer: {
        status: 200,
        description: 'The events',
        schema: data(v.array(Event)),
        example: { data: [EXAMPLE] },
      },
      refusals: [410, 422, 507],
    }),
  ];
}

function eventJson({ body, at, ...event }: NumberedEvent): string {
  const { sequence, event: kind, directory_id, upload_id } = event;
  const fields = { sequence, event: kind, at: formatMicros(at), directory_id, upload_id };
  return `${JSON.stringify(fields).slice(0, -1)},"data":${body}}`;
}
