/** The refusals that endpoints share, by status, for openapi.json. The examples have the texts of real refusals. */

import type { HeaderName } from './headers.ts';

export interface Refusal {
  /** The name of the component in openapi.json. */
  readonly name: string;
  readonly description: string;
  /** Example bodies, by name. */
  readonly examples: Readonly<Record<string, object>>;
  readonly headers?: readonly HeaderName[];
}

const one = (error: string): Refusal['examples'] => ({ error: { error } });

export const REFUSALS: Readonly<Record<number, Refusal>> = {
  400: {
    name: 'BadRequest',
    description:
      'The request cannot be understood: the body is not JSON or was cut off, or two servers could read the headers differently.',
    examples: one('Request body is not valid JSON'),
  },
  401: {
    name: 'Unauthenticated',
    description: 'The key is missing, malformed, revoked or expired.',
    examples: one('Invalid or missing API key'),
    headers: ['WWW-Authenticate'],
  },
  403: {
    name: 'Forbidden',
    description:
      'The plan of the account does not include the API; or the key lacks the admin role, is read-only, or is limited to other directories.',
    examples: {
      plan: { error: 'API access requires a Pro or Business plan. Change the plan of the account to use it.' },
      role: { error: 'Not authorized' },
      scope: { error: 'This API key is read-only' },
    },
  },
  404: {
    name: 'NotFound',
    description:
      "The key's account has nothing with that id. The response does not reveal whether another account does.",
    examples: one('Directory not found'),
  },
  409: {
    name: 'Conflict',
    description:
      'Not possible now, or not on this machine: `error` says why. If there is a `Retry-After` header, try again after that time.',
    examples: one('A request with this Idempotency-Key is still in progress'),
    headers: ['Retry-After'],
  },
  410: {
    name: 'Gone',
    description: 'Some of the events are no longer kept. `error` says which number to continue with.',
    examples: one(
      'Events up to number 4711 are no longer kept: list the uploads of your directories, then continue with ?after=4711',
    ),
  },
  412: {
    name: 'PreconditionFailed',
    description:
      'The condition in `If-Match` or `If-None-Match` is not met: the file exists, was deleted, or has been replaced.',
    examples: one('There is another file by now'),
  },
  413: {
    name: 'TooLarge',
    description: 'The body is too large.',
    examples: one('Request body is over 65536 bytes'),
  },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not JSON in UTF-8, or is compressed.',
    examples: one('Content-Type must be application/json'),
  },
  416: {
    name: 'RangeNotSatisfiable',
    description: 'The range begins after the end of the file.',
    examples: one('Range not satisfiable'),
  },
  421: {
    name: 'Misdirected',
    description:
      "With several nodes: this directory's files are on another node. `error` names it, with the URL of its API if that is configured.",
    examples: one('The files of this directory are on sftp-2: send this request to https://sftp-2.example.com:8443'),
  },
  422: {
    name: 'Unprocessable',
    description:
      'Fields are invalid: `errors` lists the problems of each. Or a rule forbids the request: `error` says why.',
    examples: {
      fields: { errors: { name: ["can't be blank"] } },
      rule: { error: 'Directory limit reached for your plan' },
    },
  },
  429: {
    name: 'RateLimited',
    description: 'Too many requests in this minute. Wait for the next minute.',
    examples: one('Rate limit exceeded'),
  },
  500: {
    name: 'InternalError',
    description: 'An unexpected failure. The operator finds it in the log by the `x-request-id`.',
    examples: one('Internal server error'),
  },
  503: {
    name: 'Unavailable',
    description:
      "Changes are not possible at the moment. With several nodes: the directory's node does not respond. The change is stored, and is applied once the node is back.",
    examples: one('Service unavailable'),
    headers: ['Retry-After'],
  },
  507: {
    name: 'StorageFull',
    description:
      'The disk is full. A directory that could not be created is removed again; a change is applied once there is room.',
    examples: one('Not enough storage space'),
  },
};

/** Refusals that any request may get. */
export function sharedRefusals({
  method,
  isOpen,
  hasBody,
}: {
  method: string;
  isOpen: boolean;
  hasBody: boolean;
}): number[] {
  return [
    400,
    ...(isOpen ? [] : [401, 403]),
    429,
    500,
    503,
    ...(hasBody ? [413, 415, 422] : []),
    // Because of the Idempotency-Key.
    ...(method === 'POST' ? [409, 422] : []),
  ];
}
