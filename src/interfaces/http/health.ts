/**
 * GET /healthz, for the service's supervisor and for load balancers. It needs no key and has no rate limit, since a flood must
 * not make a working service look dead.
 */
import type { Context } from 'hono';
import * as v from 'valibot';
import { errorMessage } from '../../foundation/base/errors.ts';
import type { Log } from '../../foundation/base/log.ts';
import type { ApiEnv } from '../web/observe.ts';
import type { Described } from './openapi/document.ts';
import { json, refusal } from '../web/responses.ts';

/** Resolves while everything works; otherwise rejects with the reason. */
export type HealthCheck = () => Promise<void>;

/** Everything works except the API's own port, which has no certificate yet. The log says what to do. */
export class NoCertificateError extends Error {
  constructor() {
    super('the API has no certificate');
    this.name = 'NoCertificateError';
  }
}

/** The ports do not listen yet. A supervisor may ask before they do. */
export class StartingError extends Error {
  constructor() {
    super('the API does not listen yet');
    this.name = 'StartingError';
  }
}

/** A health check that fails as long as something keeps the ports from serving. */
export interface Readiness {
  readonly check: HealthCheck;
  obstacle: Error | undefined;
}

/** Not ready until the obstacle is taken away. @param check checks everything but the ports. */
export function createReadiness(check: HealthCheck): Readiness {
  const readiness: Readiness = {
    obstacle: new StartingError(),
    async check() {
      if (readiness.obstacle) throw readiness.obstacle;
      await check();
    },
  };
  return readiness;
}

export const HEALTH: Described = {
  method: 'GET',
  path: '/healthz',
  operation: {
    id: 'getHealth',
    tag: 'Service',
    summary: 'Whether everything works',
    description: 'For supervisors and load balancers. It has no rate limit.',
    open: true,
    answer: {
      status: 200,
      description: 'Everything works',
      schema: v.strictObject({ status: v.literal('ok') }),
      example: { status: 'ok' },
    },
    refusals: [],
  },
};

/**
 * Answers 200 or 503. The reason is logged once, as an error unless berth is just starting. The response has no reason, except
 * that the certificate is missing.
 */
export function health(check: HealthCheck, log: Log) {
  let known = '';
  return async (c: Context<ApiEnv>): Promise<Response> => {
    c.env.notes.route = '/healthz';
    try {
      await check();
      known = '';
      return json('{"status":"ok"}');
    } catch (error) {
      const reason = errorMessage(error);
      if (reason !== known) {
        const text = `not healthy: ${reason}`;
        if (error instanceof StartingError) log.info(text);
        else log.error({ err: error, request_id: c.env.notes.id }, text);
      }
      known = reason;
      return refusal(503, error instanceof NoCertificateError ? 'No certificate' : 'Service unavailable');
    }
  };
}
