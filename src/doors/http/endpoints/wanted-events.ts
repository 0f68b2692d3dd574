/** …/webhook/events: the events besides uploads that a directory or the account subscribes to. */
import type { AppContext } from '../../web/context.ts';
import { EventsFields, eventsOf, setEvents, type WantedEvents } from '../../../rules/directories/wanted-events.ts';
import { type Endpoint, isOfDirectory, ownerIn, requireAdmin } from '../access.ts';
import { readFields } from '../body.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { data, WantedEvents as Shown } from '../schemas.ts';
import { refuseUnknown } from '../unknown-names.ts';

const OF_DIRECTORY = '/api/v1/directories/:id/webhook/events';
const OF_ACCOUNT = '/api/v1/webhook/events';
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
    route('GET', OF_DIRECTORY, show, {
      id: 'getEvents',
      tag: 'Webhooks',
      summary: 'Show the events that a directory subscribes to',
      answer: answer(true),
      refusals: [404],
    }),
    route('PUT', OF_DIRECTORY, set, {
      id: 'setEvents',
      tag: 'Webhooks',
      summary: 'Subscribe a directory to events besides uploads',
      description: `${ABOUT} \`null\` means the events of the account, which is the default for a directory.`,
      body,
      answer: answer(false),
      refusals: [404, 507],
    }),
    route('GET', OF_ACCOUNT, show, {
      id: 'getAccountEvents',
      tag: 'Webhooks',
      summary: 'Show the events that the account subscribes to',
      answer: answer(false),
      refusals: [],
    }),
    route('PUT', OF_ACCOUNT, set, {
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
