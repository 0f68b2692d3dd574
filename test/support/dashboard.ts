/** The dashboard of a real berth, and somebody who is signed in there: over HTTPS, with cookies and forms, without a browser. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { systemClock } from '../../src/foundation/base/clock.ts';
import type { Config } from '../../src/foundation/base/config.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { Role } from '../../src/foundation/db/schema.ts';
import { openUserSession } from '../../src/rules/users/sessions.ts';

export interface PageAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Visitor extends Disposable {
  readonly email: string;
  /** The cookies that it has, by name; a test may take, give or change some. */
  readonly cookies: Map<string, string>;
  get(path: string, headers?: Record<string, string>): Promise<PageAnswer>;
  /** Posts a form with this session's token, unless `fields` have another. Does not follow the redirect. */
  post(path: string, fields?: Record<string, string>, headers?: Record<string, string>): Promise<PageAnswer>;
  /** Any request, with the cookies and nothing else. */
  send(method: string, path: string, headers?: Record<string, string>, body?: string): Promise<PageAnswer>;
  /** Posts, and follows the redirect. */
  submit(path: string, fields?: Record<string, string>): Promise<PageAnswer>;
}

/** A user of that account, made without the rules that make users, and signed in. */
export async function signedIn(
  { config, port }: { config: Config; port: number },
  accountId: string,
  role: Role = 'admin',
  email = `${randomUUID().slice(0, 8)}@example.com`,
): Promise<Visitor> {
  const database = await openDatabase(config.database);
  const now = systemClock().now();
  const user = { id: randomUUID(), account_id: accountId, email, role };
  const token = await database.db.transaction().execute(async (tx) => {
    await tx
      .insertInto('users')
      .values({ ...user, totp_step: 0, inserted_at: now })
      .execute();
    const visit = { address: '127.0.0.1', agent: 'test' };
    return openUserSession(tx, user.id, { now, visit, awaitsCode: false });
  });
  await database.close();
  const visitor = visitorOf({ config, port });
  visitor.cookies.set('__Host-berth', token);
  return { ...visitor, email: user.email };
}

/** Somebody who is not signed in. */
export function visitorOf({ config, port }: { config: Config; port: number }): Visitor {
  const agent = new Agent({ ca: readFileSync(config.tls.cert), keepAlive: true });
  const cookies = new Map<string, string>();
  const send: Visitor['send'] = async (method, path, headers = {}, body) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    // Node frames the body of a DELETE by its length alone.
    const length = body !== undefined && { 'content-length': String(Buffer.byteLength(body)) };
    const sent = { ...(cookie !== '' && { cookie }), ...length, ...headers };
    const outgoing = request({ agent, host: '127.0.0.1', port, method, path, headers: sent });
    outgoing.end(body);
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    for (const line of incoming.headers['set-cookie'] ?? []) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/max-age=0/i.test(line)) cookies.delete(name);
      else cookies.set(name, value);
    }
    return { status: incoming.statusCode ?? 0, headers: incoming.headers, text: await text(incoming) };
  };
  const get: Visitor['get'] = (path, headers = {}) => send('GET', path, headers);
  const post: Visitor['post'] = async (path, fields = {}, headers = {}) => {
    const body = new URLSearchParams({ _csrf: await tokenOf(get), ...fields }).toString();
    const origin = `https://127.0.0.1:${port}`;
    const type = 'application/x-www-form-urlencoded';
    return send('POST', path, { 'content-type': type, origin, ...headers }, body);
  };
  const submit: Visitor['submit'] = async (path, fields) => {
    const answer = await post(path, fields);
    return answer.headers.location === undefined ? answer : get(answer.headers.location);
  };
  return { email: '', cookies, get, post, send, submit, [Symbol.dispose]: () => agent.destroy() };
}

/** As a form of its session has it. */
async function tokenOf(get: Visitor['get']): Promise<string> {
  const wanted = await get('/dashboard/directories');
  // A user who has to enter a code first gets that form.
  const page = wanted.headers.location === undefined ? wanted : await get(wanted.headers.location);
  return /name="_csrf" value="([^"]*)"/.exec(page.text)?.[1] ?? '';
}
