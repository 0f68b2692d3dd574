/**
 * An endpoint and its description for openapi.json. The statuses that every endpoint can answer with (401, 403, 429, 500, 503)
 * and the parameters in its path are not repeated here.
 */
import type { GenericSchema } from 'valibot';
import type { Endpoint } from './access.ts';
import type { HeaderName, RequestHeaderName } from './openapi/headers.ts';
import type { Fields } from '../../rules/directories/fields.ts';
import { ValidationError } from '../../foundation/base/errors.ts';
import { notApplied, warning } from '../web/warnings.ts';

/** The sections of the reference, in their order. */
export const TAGS = {
  Directories: 'What customers log in to',
  Access: 'Passwords, keys, suspension, networks',
  Uploads: 'The files that customers have sent',
  Files: 'Upload and download file content',
  Events: 'The feed of events',
  Webhooks: 'Webhooks, their deliveries and replays',
  Keys: 'API keys for programs',
  Service: 'The service itself',
} as const;

export interface Operation {
  /** The operation's name in generated clients. */
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  readonly description?: string;
  /** The required role. Other keys get 403. */
  readonly role?: 'admin';
  /** The specification defines this operation with its statuses and bodies. */
  readonly isSpecified?: true;
  /** No key is required. */
  readonly open?: true;
  /** Keys that are limited to directories can use it, and see only those. For operations outside of one directory. */
  readonly isNarrowed?: true;
  /** An object schema of the query parameters. */
  readonly query?: GenericSchema;
  /** Request headers that it reads, besides those that every operation reads. */
  readonly accepts?: readonly RequestHeaderName[];
  /** JSON with a real example, or the bytes of a file. */
  readonly body?: { readonly schema: GenericSchema; readonly example: unknown; readonly isOptional?: true } | 'bytes';
  readonly answer: {
    readonly status: number;
    readonly description: string;
    /** The schema of the whole body, with a real example. Left out if there is no JSON body. */
    readonly schema?: GenericSchema;
    readonly example?: unknown;
    /** The content type of a body that is not JSON. */
    readonly content?: string;
    /** Response headers besides `x-request-id`, and besides `Link` if there are pages. */
    readonly headers?: readonly HeaderName[];
    /** Descriptions of other statuses that are not refusals, such as 206. */
    readonly others?: Readonly<Record<number, string>>;
  };
  /** Statuses of refusals besides those that every such request can get (openapi/refusals.ts). */
  readonly refusals: readonly number[];
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path in hono's notation: `/api/v1/directories/:id`. */
  readonly path: string;
  readonly endpoint: Endpoint;
  readonly operation: Operation;
}

export function route<Path extends string>(
  method: Route['method'],
  path: Path,
  endpoint: Endpoint<Path>,
  operation: Operation,
): Route {
  return { method, path, endpoint, operation };
}

// Names that an endpoint does not know are probably typing errors. Endpoints of the specification answer as specified
// and add a `Warning`; all others refuse the request.

/** How many names one response lists. */
const LISTED = 10;

/** @throws {ValidationError} naming the fields that are not among these. */
export function refuseUnknown(known: object, fields: Fields): void {
  refuse(Object.keys(fields).filter((name) => !Object.hasOwn(known, name)));
}

function refuse(names: readonly string[]): void {
  if (names.length === 0) return;
  throw new ValidationError(
    Object.fromEntries(names.slice(0, LISTED).map((name) => [name.slice(0, 100), [['unknown']]])),
  );
}

/** Wraps an endpoint so that it refuses unknown query parameters, or warns about them. */
export function checkingQueryNames(endpoint: Endpoint, { query, isSpecified }: Operation): Endpoint {
  const known = Object.keys(query && 'entries' in query ? (query.entries as object) : {});
  return async (c, caller) => {
    const given = c.req.url.includes('?') ? c.req.query() : {};
    const unknown = Object.keys(given).filter((name) => !known.includes(name));
    if (unknown.length === 0) return endpoint(c, caller);
    if (!isSpecified) refuse(unknown);
    const response = await endpoint(c, caller);
    for (const value of Object.values(warning(notApplied(known, given, [])))) response.headers.append('warning', value);
    return response;
  };
}
