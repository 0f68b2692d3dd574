/**
 * /links/…: downloads and uploads with a signed link, without a key. A link gives access to its own path only; nothing is
 * listed, and no cookie is set or read.
 */
import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { BerthError, ValidationError } from '../../base/errors.ts';
import { type Link, linkIn } from '../../links/claims.ts';
import type { LinkUses, Visit } from '../../links/use.ts';
import type { Log } from '../../base/log.ts';
import type { DirectoryFiles } from '../../files/directory-files.ts';
import { baseName, displayName } from '../../uploads/file-path.ts';
import type { ClientAddress } from '../../web/client-address.ts';
import { fileAnswer } from '../../web/file-answer.ts';
import { LINK_HEADERS, type LinkPages } from '../link-page.ts';
import { fileInForm, isForm } from '../multipart.ts';
import type { ApiEnv } from '../../web/observe.ts';
import { receivedBytes } from '../../web/received-bytes.ts';
import { requestedPath } from '../../web/requested-path.ts';
import { dataResponse, errorResponse, refusal } from '../../web/responses.ts';
import type { Turn } from '../../web/turns.ts';
import { checkCoding } from './files.ts';

export const LINK = '/links/:id/:path{.+}';

/** How many files may arrive in one directory by links at once. */
const AT_ONCE = 16;

/** How many bytes a form may have besides its file. */
const FORM_BYTES = 16_384;

/** The precondition that no file is replaced. */
const NEW = { isNew: true, allows: (tag: string | undefined) => tag === undefined };

export interface LinkEndpointOptions {
  readonly uses: LinkUses;
  readonly files: Pick<DirectoryFiles, 'checkHome' | 'contentAt' | 'place'>;
  readonly clientAddress: ClientAddress;
  readonly pages: LinkPages;
  readonly turn: Turn;
  readonly log: Log;
}

type LinkContext = Context<ApiEnv>;

export function linkEndpoint(options: LinkEndpointOptions): (c: LinkContext) => Promise<Response> {
  const { uses, files, clientAddress, pages, turn, log } = options;
  const coming = new Map<string, number>();

  async function download(c: LinkContext, visit: Visit): Promise<Response> {
    const { incoming, outgoing } = c.env;
    const directory = await uses.check(visit);
    await files.checkHome(directory);
    const found = await files.contentAt(directory, visit.link.path);
    const answer = await fileAnswer(c.env, found, () => turn(`link ${directory.id}`, outgoing));
    const sent = incoming.method === 'GET' ? bytesToTheEnd(answer, found.content.size) : undefined;
    if (sent === undefined) return answer;
    try {
      await uses.begin(visit);
    } catch (error) {
      await answer.body?.cancel();
      throw error;
    }
    const ended = (): void =>
      void uses
        .end(visit, outgoing.writableFinished ? sent : undefined)
        .catch((error: unknown) => log.error({ err: error }, 'could not record the end of a download by link'));
    if (outgoing.destroyed) ended();
    else outgoing.once('close', ended);
    return answer;
  }

  async function upload(c: LinkContext, visit: Visit): Promise<Response> {
    const { incoming, untimed } = c.env;
    const { link, address } = visit;
    const directory = await uses.check(visit);
    await files.checkHome(directory);
    checkCoding(incoming.headers);
    const most = link.maxBytes ?? 0;
    const { 'content-type': type, 'content-length': length = 0 } = incoming.headers;
    const form = incoming.method === 'POST' && isForm(type) ? type : undefined;
    if (incoming.method === 'POST' && form === undefined)
      throw new BerthError('unsupported_media_type', 'Content-Type must be multipart/form-data');
    if (Number(length) > most + (form === undefined ? 0 : FORM_BYTES)) throw tooLarge(most);
    const before = coming.get(directory.id) ?? 0;
    if (before >= AT_ONCE) throw new BerthError('rate_limited', `Over ${AT_ONCE} files are arriving at once`);
    coming.set(directory.id, before + 1);
    try {
      untimed?.();
      const received = receivedBytes(incoming);
      const file = atMost(form === undefined ? received : fileInForm(received, form), most);
      const target = { accountId: directory.account_id, id: directory.id };
      const byLink = { address, take: (tx: Parameters<LinkUses['take']>[0], ino: number) => uses.take(tx, visit, ino) };
      const { size_bytes } = await files.place(target, link.path, file, link.once ? NEW : undefined, byLink);
      if (form !== undefined && wantsPage(incoming))
        return await pages.message('The file has been uploaded. You can close this page.', 201);
      return dataResponse(JSON.stringify({ path: displayName(link.path), size_bytes }), 201);
    } finally {
      const left = (coming.get(directory.id) ?? 1) - 1;
      if (left > 0) coming.set(directory.id, left);
      else coming.delete(directory.id);
    }
  }

  async function answerTo(c: LinkContext): Promise<Response> {
    const { incoming } = c.env;
    const link = linkOf(c);
    const visit = { link, address: clientAddress(incoming) };
    const isRead = incoming.method === 'GET' || incoming.method === 'HEAD';
    if (link.kind === 'download')
      return isRead ? download(c, visit) : refusal(405, 'This link is for a download', { allow: 'GET, HEAD' });
    if (!isRead) return upload(c, visit);
    await files.checkHome(await uses.check(visit));
    return pages.form(displayName(baseName(link.path)), link.maxBytes ?? 0);
  }

  return async (c) => {
    let answer = await answerTo(c).catch((error: unknown) => errorResponse(error, log, c.env.notes.id));
    if (answer.status >= 400 && wantsPage(c.env.incoming)) {
      const { error = 'It did not work.' } = (await answer.json()) as { error?: string };
      answer = await pages.message(error, answer.status);
    }
    for (const [name, value] of Object.entries(LINK_HEADERS))
      if (!answer.headers.has(name)) answer.headers.set(name, value);
    return answer;
  };
}

/** @throws {BerthError} `link_invalid`. */
function linkOf(c: LinkContext): Link {
  const id = c.req.param('id') ?? '';
  const { url = '' } = c.env.incoming;
  try {
    const path = requestedPath(url, `/links/${id}/`);
    const link = linkIn(id, path, new URLSearchParams(url.slice(url.indexOf('?') + 1)));
    if (link) return link;
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
  }
  throw new BerthError('link_invalid', 'This link is not valid. Ask for a new one.');
}

/** How many bytes a response sends up to the file's end; undefined when it stops before the end. */
function bytesToTheEnd({ status, headers }: Response, size: number): number | undefined {
  if (status === 200) return size;
  const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(headers.get('content-range') ?? '') ?? [];
  return status === 206 && Number(last) + 1 === size ? size - Number(first) : undefined;
}

async function* atMost(body: AsyncIterable<Buffer>, most: number): AsyncGenerator<Buffer, void, void> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > most) throw tooLarge(most);
    yield chunk;
  }
}

function tooLarge(most: number): BerthError {
  return new BerthError('body_too_large', `The file is too large: this link takes at most ${most} bytes`);
}

function wantsPage({ headers }: IncomingMessage): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? '');
}
