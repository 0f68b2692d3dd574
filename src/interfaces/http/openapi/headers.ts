/** The headers and path parameters in openapi.json, by name. */

const text = (description: string, example: string, more: object = {}) => ({
  description,
  schema: { type: 'string', ...more },
  example,
});

export const HEADERS = {
  'x-request-id': text('The id of the request in the log and in the audit.', 'fb3ad9defea1b62d48-00000001'),
  'WWW-Authenticate': text('The scheme of the key.', 'Bearer'),
  'Retry-After': text('How many seconds to wait before you try again.', '5', { pattern: '^\\d+$' }),
  Location: text('The path of the new directory.', '/api/v1/directories/18db3dc8-bfa8-4427-9a27-af3b079ff5b8'),
  Warning: text('Parts of the request that had no effect.', '299 - "not applied by this request: webhook_url"'),
  Link: text(
    'The next page, while there is one.',
    '</api/v1/directories?limit=100&after=1795212999364712.18db3dc8-bfa8-4427-9a27-af3b079ff5b8>; rel="next"',
  ),
  'Idempotency-Replayed': text('`true` if this is the stored response to an earlier request.', 'true'),
  ETag: text('Changes when the content changes.', '"Kq5sNclPz7QV2-lG"'),
  'Accept-Ranges': text('Ranges are supported.', 'bytes'),
  'Content-Range': text('The range that was sent.', 'bytes 0-1023/4096'),
  'Content-Disposition': text('The name of the file, safe for any name.', 'attachment; filename="orders.csv"'),
} as const;

const requestHeader = (description: string, example: string) => ({
  in: 'header',
  description,
  schema: { type: 'string' },
  example,
});

/** The headers of requests. */
export const REQUEST_HEADERS = {
  'If-Match': requestHeader('Only if the file has this `ETag`, or for `*` any file. Otherwise 412.', '"2k9-c1x2y3z"'),
  'If-None-Match': requestHeader('Only if there is no such file (`*`), or none with this `ETag`.', '*'),
  Range: requestHeader('The range of the file to send.', 'bytes=0-1023'),
} as const;

export type RequestHeaderName = keyof typeof REQUEST_HEADERS;

export type HeaderName = keyof typeof HEADERS;

const id = (description: string) => ({
  description,
  schema: { type: 'string', format: 'uuid' },
  example: '18db3dc8-bfa8-4427-9a27-af3b079ff5b8',
});

/** Parameters by their name in the path. */
export const PATH_PARAMETERS: Readonly<Record<string, object>> = {
  id: id('The directory.'),
  upload_id: id('The file.'),
  file_id: id('The partial file: its `id` in the list of files.'),
  delivery_id: id('The delivery.'),
  key_id: id('The API key.'),
  link_id: id('The link.'),
  fingerprint: {
    description: 'The fingerprint of the key, percent-encoded.',
    schema: { type: 'string' },
    example: 'SHA256:uNiVztksCsDhcc0u9e8BrrFXVUGGBRvh6GrQAZ1jQeI',
  },
  path: {
    description: 'The path in the directory: names separated by slashes, each percent-encoded. `%2F` is a slash too.',
    schema: { type: 'string', minLength: 1 },
    example: 'reports/2026-11.csv',
  },
};

export const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Makes the request safe to repeat: within 24 hours, the same request with the same key gets the same status and body. Another request with that key gets 422. Repeating it while the first request is still running may get 409.',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[ -~]+$' },
  example: 'order-7-directory',
};
