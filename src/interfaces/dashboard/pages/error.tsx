/** The page that is shown when another one failed or does not exist. */
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { BerthError, fullAsRefusal, isUnavailable, ValidationError } from '../../../foundation/base/errors.ts';
import type { Log } from '../../../foundation/base/log.ts';
import { Layout, NarrowLayout } from '../components/layout.tsx';
import { type PageContext, visitorOf } from '../environment.ts';

const STATUS: Partial<Record<BerthError['code'], ContentfulStatusCode>> = {
  not_authorized: 403,
  plan_required: 403,
  body_too_large: 413,
  unsupported_media_type: 415,
  storage_full: 507,
  home_unavailable: 503,
  home_elsewhere: 421,
  file_changed: 409,
  file_in_use: 409,
  directory_limit: 422,
};

const TITLES: Partial<Record<number, string>> = { 403: 'Not allowed', 404: 'Not found', 429: 'Too many requests' };

export function notFoundPage(c: PageContext): Response | Promise<Response> {
  return page(c, 404, 'This page doesn’t exist. It may have been deleted, or the address is wrong.');
}

/** The page for an error. For an unknown error it only has the request's id, by which the log has the details. */
export function errorPage(thrown: Error, c: PageContext, log: Log): Response | Promise<Response> {
  const error = fullAsRefusal(thrown);
  const { id } = c.env.notes;
  if (error instanceof HTTPException && error.status < 500)
    return page(c, error.status, 'This form was sent from another site. Nothing was changed.');
  if (error instanceof ValidationError) return page(c, 422, 'Something in this address or form is wrong.');
  if (error instanceof BerthError && error.code.endsWith('_not_found')) return notFoundPage(c);
  if (error instanceof BerthError && error.code === 'rate_limited')
    return page(c, 429, 'Too many requests came from you or your network. Wait a minute and try again.');
  if (error instanceof BerthError) {
    if (error.code === 'storage_full') log.error({ err: error, request_id: id }, 'no space left');
    return page(c, STATUS[error.code] ?? 409, error.message);
  }
  if (isUnavailable(error)) return page(c, 503, 'berth is busy. Try again in a moment.');
  log.error({ err: error, request_id: id }, 'a request failed');
  return page(c, 500, `Something went wrong. The operator of this server can find it in the log as ${id}.`);
}

function page(c: PageContext, status: ContentfulStatusCode, message: string): Response | Promise<Response> {
  const visitor = visitorOf(c);
  const Frame = visitor && !visitor.awaitsCode ? Layout : NarrowLayout;
  c.status(status);
  return c.render(
    <Frame title={TITLES[status] ?? 'Something went wrong'} isError>
      <p>{message}</p>
      <p>
        <a href="/dashboard">Go to Home</a>
      </p>
    </Frame>,
  );
}
