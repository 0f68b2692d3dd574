/**
 * The API's bodies: `{"data": …}` for success (specification, "Endpoints"), and the two shapes of errors (specification,
 * "Errors"). `STATUS` has the status of each error. An unknown error is a 500 without details; the log has them under the
 * response's `x-request-id`.
 */
import {
  BerthError,
  type ErrorCode,
  errorMessage,
  fullAsRefusal,
  isUnavailable,
  ValidationError,
} from '../../foundation/base/errors.ts';
import { messageOf } from '../../foundation/base/problems.ts';
import type { Log } from '../../foundation/base/log.ts';

/** The status of each refusal. */
export const STATUS: Readonly<Record<ErrorCode, number>> = {
  malformed_json: 400,
  incomplete_body: 400,
  partial_put: 400,
  unauthenticated: 401,
  plan_required: 403,
  not_authorized: 403,
  directory_not_found: 404,
  public_key_not_found: 404,
  api_key_not_found: 404,
  in_flight: 409,
  upload_not_found: 404,
  delivery_not_found: 404,
  file_not_found: 404,
  precondition_failed: 412,
  user_not_found: 404,
  last_admin: 409,
  file_changed: 409,
  file_in_use: 409,
  file_conflict: 409,
  quota_unavailable: 409,
  events_gone: 410,
  body_too_large: 413,
  unsupported_media_type: 415,
  home_elsewhere: 421,
  link_not_found: 404,
  link_invalid: 403,
  link_ended: 410,
  directory_limit: 422,
  rate_limited: 429,
  home_unavailable: 503,
  storage_full: 507,
};

const HEADERS: Partial<Record<ErrorCode, Record<string, string>>> = {
  // RFC 9110, section 11.6.1: a 401 names the scheme.
  unauthenticated: { 'www-authenticate': 'Bearer' },
  in_flight: { 'retry-after': '1' },
  home_unavailable: { 'retry-after': '5' },
};

/** For responses with a secret: they must not be stored, and are never compressed. */
export const SECRET = { 'cache-control': 'no-store' };

/** `data` is JSON text. */
export function dataResponse(data: string, status = 200, headers?: Record<string, string>): Response {
  return json(`{"data":${data}}`, status, headers);
}

/** A refusal that does not come from the rules, such as an unknown path. */
export function refusal(status: number, message: string, headers?: Record<string, string>): Response {
  return json(JSON.stringify({ error: message }), status, headers);
}

export function errorResponse(thrown: unknown, log: Log, requestId: string): Response {
  const error = fullAsRefusal(thrown);
  if (error instanceof ValidationError) return json(JSON.stringify({ errors: messagesOf(error) }), 422);
  if (error instanceof BerthError) {
    if (error.code === 'storage_full') log.error({ err: error, request_id: requestId }, 'no space left');
    return refusal(STATUS[error.code], error.message, HEADERS[error.code]);
  }
  if (isUnavailable(error)) {
    const reason = errorMessage(error); // with SQLite: another process writes for too long
    log.error({ request_id: requestId, reason }, 'the database cannot be read or written');
    return refusal(503, 'Service unavailable', { 'retry-after': '5' });
  }
  log.error({ err: error, request_id: requestId }, 'a request failed');
  return refusal(500, 'Internal server error');
}

function messagesOf({ fields }: ValidationError): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(Object.entries(fields).map(([field, problems]) => [field, problems.map(messageOf)]));
}

export function json(body: string, status = 200, headers?: Record<string, string>): Response {
  const length = String(Buffer.byteLength(body));
  return new Response(body, {
    status,
    headers: { 'content-type': 'application/json', 'content-length': length, ...headers },
  });
}
