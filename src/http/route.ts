/**
 * An endpoint with what openapi.json says of it. What every endpoint can answer (401, 403, 429, 500, 503) and the
 * parameters in its path are not repeated here.
 */
import type { GenericSchema } from 'valibot';
import type { Endpoint } from './access.ts';

import type { HeaderName, RequestHeaderName } from './openapi/headers.ts';

/** The sections of the reference, in their order. */
export const TAGS = {
  Directories: 'What customers log in to',
  Access: 'Passwords, keys, suspension, networks',
  Uploads: 'The files that customers have sent',
  Files: 'The content of files, both ways',
  Events: 'The feed of what has happened',
  Webhooks: 'What berth sends, and sending it again',
  Keys: 'API keys for programs',
  Service: 'The service itself',
} as const;

export interface Operation {
  /** Its name in generated clients. */
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  readonly description?: string;
  /** The role that it needs; any other key gets 403. */
  readonly role?: 'admin';
  /** The specification has it, with its statuses and bodies. */
  readonly isSpecified?: true;
  /** Needs no key. */
  readonly open?: true;
  /** Not of one directory, and open to keys of named directories: it shows them nothing else. */
  readonly isNarrowed?: true;
  /** An object schema: the parameters behind the question mark. */
  readonly query?: GenericSchema;
  /** Headers of the request that it reads, beside those of all. */
  readonly accepts?: readonly RequestHeaderName[];
  /** JSON with a real example, or the bytes of a file. */
  readonly body?: { readonly schema: GenericSchema; readonly example: unknown; readonly isOptional?: true } | 'bytes';
  readonly answer: {
    readonly status: number;
    readonly description: string;
    /** The schema of the whole body, with a real example; left out where there is no JSON body. */
    readonly schema?: GenericSchema;
    readonly example?: unknown;
    /** The type of a body that is no JSON. */
    readonly content?: string;
    /** Response headers beside `x-request-id`, and `Link` where there are pages. */
    readonly headers?: readonly HeaderName[];
    /** Other statuses that are no refusals, such as 206: what they mean. */
    readonly others?: Readonly<Record<number, string>>;
  };
  /** The statuses of refusals that not every such request can get (openapi/refusals.ts). */
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
