/** Successful answers: every one of them is `{"data": …}` (specification, "Endpoints"). */

/** `data` is JSON text. */
export function dataResponse(data: string, status = 200, headers?: Record<string, string>): Response {
  return new Response(`{"data":${data}}`, { status, headers: { 'content-type': 'application/json', ...headers } });
}
