/**
 * Names that an endpoint does not know are probably typing errors. Endpoints of the specification answer as specified and
 * add a `Warning`; all others refuse the request.
 */
import type { Fields } from '../../rules/directories/fields.ts';
import { ValidationError } from '../../foundation/base/errors.ts';
import type { Endpoint } from './access.ts';
import type { Operation } from './route.ts';
import { notApplied, warning } from '../web/warnings.ts';

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
