/**
 * An endpoint with what openapi.json says of it. What every endpoint can answer (401, 403, 429, 500, 503) and the
 * parameters in its path are not repeated here.
 */
import type { GenericSchema } from 'valibot';
import type { Endpoint } from './access.ts';

/** The sections of the reference, in their order. */
export const TAGS = ['Directories', 'Access', 'Uploads', 'Files', 'Webhooks', 'Service'] as const;

export interface Operation {
  /** What generated clients call it. */
  readonly id: string;
  readonly tag: (typeof TAGS)[number];
  readonly summary: string;
  readonly description?: string;
  /** The role that it needs; any other key gets 403. */
  readonly role?: 'admin';
  /** An object schema: the parameters behind the question mark. */
  readonly query?: GenericSchema;
  readonly body?: { readonly schema: GenericSchema; readonly example: unknown };
  readonly answer: {
    readonly status: number;
    readonly description: string;
    /** Of the whole body; left out where there is none. */
    readonly schema?: GenericSchema;
    readonly example?: unknown;
  };
  /** The statuses of refusals that are this endpoint's own. */
  readonly refusals: readonly number[];
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** As hono writes it: `/api/v1/directories/:id`. */
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
