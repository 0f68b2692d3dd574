/**
 * /links/…: downloads and uploads with a link, and passwords that are shown once, without a key. A link gives access to its own path
 * only; nothing is listed, no folder is named, and no cookie is set or read.
 */
import type { AppContext } from '../../web/context.ts';
import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { formatMicros } from '../../../foundation/base/clock.ts';
import { BerthError, ValidationError } from '../../../foundation/base/errors.ts';
import type { LinksTable } from '../../../foundation/db/schema.ts';
import { encoded, limitInWords, TOKEN } from '../../../arrivals/links/links.ts';
import type { Part } from '../../../arrivals/links/progress.ts';
import { type Admitted, invalid, linkUses, type Visit } from '../../../arrivals/links/use.ts';
import type { ByLink } from '../../../arrivals/files/placing.ts';
import { baseName, displayName, type FilePath, pathOf } from '../../../arrivals/uploads/file-path.ts';
import { clientNetwork } from '../../web/client-address.ts';
import { fileAnswer } from '../../web/file-answer.ts';
import { LINK_HEADERS, linkPages, type Receipt } from '../link-page.ts';
import { type BodyFile, fileInBody, isForm } from '../multipart.ts';
import type { ApiEnv } from '../../web/observe.ts';
import { requestedPath } from '../../web/requested-path.ts';
import { dataResponse, errorResponse, refusal } from '../../web/responses.ts';
import { arrivals } from '../../web/concurrency.ts';
import { checkCoding } from './files.ts';

export const LINK = '/links/:token/*';

/**
 * How many files may arrive at once: from one client by one link, by one link, and in one directory by all links. So no client
 * keeps others of its link waiting, and no link those of its directory.
 */
const AT_ONCE = { client: 8, link: 16, directory: 64 };

/** How many bytes a form may have besides its file. */
const FORM_BYTES = 16_384;

/** The precondition that no file is replaced. */
const NEW = { isNew: true, allows: (tag: string | undefined) => tag === undefined };

type LinkContext = Context<ApiEnv>;

export function linkEndpoint(context: AppContext): (c: LinkContext) => Promise<Response> {
  const { files, web, clock, log } = context;
  const uses = linkUses(context);
  const pages = linkPages();
  const arriving = arrivals();

  async function download(c: LinkContext, visit: Visit, admitted: Admitted): Promise<Response> {
    const { incoming, outgoing } = c.env;
    const { link, directory } = admitted;
    const { upload: of, content } = await files.contentAt(directory, pathOf(link.path));
    let bytesRead = 0;
    const read = async function* (start: number, end: number): ReturnType<typeof content.read> {
      for await (const chunk of content.read(start, end)) {
        bytesRead += chunk.length;
        yield chunk;
      }
    };
    const found = { upload: of, content: { ...content, read } };
    const answer = await fileAnswer(c.env, found, async () => {
      await web.fileSlot(`link ${directory.id}`, outgoing);
      // The link may have been revoked meanwhile.
      await uses.check(visit);
    });
    const part = incoming.method === 'GET' ? partOf(answer, content.size) : undefined;
    if (!part) return answer;
    const begun = await uses.begin(visit, admitted, content, part).catch(async (error: unknown) => {
      await answer.body?.cancel();
      throw error;
    });
    const ended = (): void => {
      // A response that was destroyed because the file has changed counts as finished for Node, too.
      const isSent = outgoing.writableFinished && bytesRead === part[1] - part[0];
      void uses
        .end(visit, admitted, begun, isSent ? undefined : bytesRead)
        .catch((error: unknown) => log.error({ err: error }, 'could not record the end of a download by link'));
    };
    if (outgoing.destroyed) ended();
    else outgoing.once('close', ended);
    return answer;
  }

  /** @param name the name in the URL. */
  async function upload(c: LinkContext, visit: Visit, admitted: Admitted, name: FilePath): Promise<Receipt> {
    const { incoming, untimed } = c.env;
    const { link, directory } = admitted;
    checkCoding(incoming.headers);
    const most = link.max_bytes ?? 0;
    const { 'content-type': type, 'content-length': length = 0 } = incoming.headers;
    const isPost = incoming.method === 'POST';
    if (isPost && !isForm(type))
      throw new BerthError('unsupported_media_type', 'Content-Type must be multipart/form-data');
    if (Number(length) > most + (isForm(type) ? FORM_BYTES : 0)) throw tooLarge(most);
    const arrived = arriving({
      [`${link.id} ${clientNetwork(visit.address)}`]: AT_ONCE.client,
      [link.id]: AT_ONCE.link,
      [directory.id]: AT_ONCE.directory,
    });
    let file: BodyFile | undefined;
    try {
      untimed?.();
      file = await fileInBody(incoming);
      const isOwnName = file.name !== undefined && (isPost || name === '');
      const path = pathFor(link, isOwnName ? pathOf(Buffer.from(file.name ?? '')) : name);
      const isNumbered = link.is_folder === 1;
      const byLink: ByLink = { address: visit.address, isNumbered, take: (tx) => uses.take(tx, visit) };
      const condition = isNumbered || link.once === 1 ? NEW : undefined;
      const target = { accountId: directory.account_id, id: directory.id };
      const { size_bytes } = await files
        .place(target, path, atMost(file.content, most), condition, byLink)
        .catch(forOutsiders);
      return { filename: displayName(baseName(path)), size_bytes, received_at: formatMicros(clock.now()) };
    } finally {
      file?.close();
      arrived();
    }
  }

  /** The page shows nothing before its button is pressed: so no preview of the link in a chat uses it up. */
  async function password(c: LinkContext, visit: Visit, { account, link }: Admitted): Promise<Response> {
    const { method } = c.env.incoming;
    if (method === 'PUT') return refusal(405, 'This link is for a password', { allow: 'GET, HEAD, POST' });
    if (method !== 'POST') return pages.password({ account, expiresAt: link.expires_at, now: clock.now() });
    const shown = await uses.showPassword(visit, { requestId: c.env.notes.id, route: `POST ${LINK}` });
    if (wantsPage(c.env.incoming)) return pages.shownPassword(shown);
    return dataResponse(JSON.stringify({ password: shown }), 200);
  }

  async function answerTo(c: LinkContext): Promise<Response> {
    const { incoming } = c.env;
    const { token, name } = requestedLink(incoming.url ?? '');
    const visit = { token, address: web.clientAddress(incoming) };
    const admitted = await uses.check(visit);
    const { link, directory } = admitted;
    const isRead = incoming.method === 'GET' || incoming.method === 'HEAD';
    // A folder's link takes any name, but only of a file that is sent.
    const isNamed = link.is_folder === 1 ? name === '' || !isRead : name === baseName(pathOf(link.path));
    if (!isNamed) throw invalid();
    if (link.kind === 'password') return password(c, visit, admitted);
    await files.checkHome(directory);
    const common = {
      account: admitted.account,
      expiresAt: link.expires_at,
      isOnce: link.once === 1,
      now: clock.now(),
    };
    // A browser first shows what it is. So no preview of the link in a chat uses it up.
    if (link.kind === 'download' && incoming.method === 'GET' && wantsPage(incoming) && !isDownload(incoming)) {
      const { content } = await files.contentAt(directory, pathOf(link.path));
      return pages.download({ ...common, name: displayName(name), size: content.size });
    }
    if (link.kind === 'download')
      return isRead
        ? download(c, visit, admitted)
        : refusal(405, 'This link is for a download', { allow: 'GET, HEAD' });
    const about = {
      ...common,
      name: link.is_folder === 1 ? undefined : displayName(name),
      maxBytes: link.max_bytes ?? 0,
    };
    if (isRead) return pages.form(about);
    const receipt = await upload(c, visit, admitted, name);
    if (incoming.method === 'POST' && wantsPage(incoming)) return pages.receipt(about, receipt);
    return dataResponse(JSON.stringify(receipt), 201);
  }

  return async (c) => {
    let answer = await answerTo(c).catch((error: unknown) => errorResponse(error, log, c.env.notes.id));
    if (answer.status >= 400 && wantsPage(c.env.incoming)) {
      const { error = 'Something went wrong. Try again.' } = (await answer.json()) as { error?: string };
      answer = await pages.refusal(error, answer.status, isForm(c.env.incoming.headers['content-type']));
    }
    for (const [name, value] of Object.entries(LINK_HEADERS))
      if (!answer.headers.has(name)) answer.headers.set(name, value);
    return answer;
  };
}

/** @returns the name after the token, '' for none. @throws {BerthError} `link_invalid`. */
function requestedLink(url: string): { readonly token: string; readonly name: FilePath } {
  const [, token = '', rest = ''] = /^\/links\/([^/?]*)(\/[^?]*)/.exec(url) ?? [];
  if (!TOKEN.test(token)) throw invalid();
  if (rest === '/') return { token, name: '' };
  try {
    return { token, name: requestedPath(rest, '/') };
  } catch (error) {
    if (error instanceof ValidationError) throw invalid();
    throw error;
  }
}

/** The path for a file of that name. A link to a file ignores the name. */
function pathFor(link: Pick<LinksTable, 'path' | 'is_folder'>, name: FilePath): FilePath {
  const path = pathOf(link.path);
  if (link.is_folder === 0) return path;
  // Some browsers send the folders of the sender's computer along.
  const own = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1);
  try {
    return requestedPath(`/${path === '' ? '' : `${encoded(path)}/`}${encoded(own)}`, '/');
  } catch (error) {
    if (error instanceof ValidationError)
      throw new BerthError('file_conflict', 'This name is not possible. Rename the file.');
    throw error;
  }
}

/** Replaces refusals whose text names folders, or speaks of what an outsider does not know. */
function forOutsiders(error: unknown): never {
  const text = error instanceof BerthError ? REFUSALS[error.code] : undefined;
  if (error instanceof BerthError && text !== undefined) throw new BerthError(error.code, text, { cause: error });
  throw error;
}

const REFUSALS: Partial<Record<BerthError['code'], string>> = {
  file_conflict: 'The file cannot be stored. Tell the person who sent you this link.',
  precondition_failed: 'A file was stored here already. Ask for a new link.',
  storage_full: 'There is no space for the file. Tell the person who sent you this link.',
  directory_not_found: 'This link is not valid. Ask for a new one.',
};

/** The part of the file that a response sends; undefined if it sends none. */
function partOf({ status, headers }: Response, size: number): Part | undefined {
  if (status === 200) return [0, size];
  const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(headers.get('content-range') ?? '') ?? [];
  return status === 206 ? [Number(first), Number(last) + 1] : undefined;
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
  return new BerthError('body_too_large', `The file is too large. The limit is ${limitInWords(most)}.`);
}

/** Whether the page's button was pressed, or a part of the file is wanted. */
function isDownload({ url, headers }: IncomingMessage): boolean {
  return headers.range !== undefined || url?.endsWith('?download') === true;
}

function wantsPage({ headers }: IncomingMessage): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? '');
}
