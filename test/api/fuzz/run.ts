/**
 * Sends cases to an API over HTTPS and judges each answer: no 5xx, no body but the documented shapes, none slow. A request
 * counts as slow if it repeatedly takes many times as long as the others of the same run: once may be the machine, or
 * garbage collection.
 */
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { fc } from '../../support/fast-check.ts';
import type { Hosted } from '../../support/hosted.ts';
import { percentile } from '../../support/percentile.ts';
import { type Case, cases } from './cases.ts';

/** Cases in a batch. Shrinking a failing case takes minutes, so it is shown as it is. */
const BATCH = 40;
/** Requests under way at a time. Client and server share a thread here, so more would slow each other down. */
const CONNECTIONS = 8;
/** No response takes this many times the median of the batch before it, which is some 3 ms on a quiet machine. */
const SLOW = 60;
const TRIES = 5;
/** Characters of a failing case. */
const SHOWN = 2000;
/** The limits of docs/limits.md and of the fields, in bytes, characters and numbers. */
const HEADER_LIMIT = 16_384;
const BODY_LIMIT = 65_536;
const METADATA_LIMIT = 16_384;
const LIMITS: Readonly<Record<string, number | { readonly min: number; readonly max: number }>> = {
  name: 100,
  description: 2000,
  external_id: 255,
  webhook_url: 2048,
  max_connections: { min: 1, max: 1000 },
  retention_days: { min: 0, max: 36_500 },
};

export interface Figures {
  sent: number;
  /** How often each status was seen. */
  readonly statuses: Record<string, number>;
  /** ms from the last byte of each request to its complete answer, in the order of arrival. */
  readonly latencies: number[];
}

interface Answered {
  readonly status: number;
  readonly type: string | undefined;
  readonly text: string;
  readonly ms: number;
}

/** Throws with the seed and the case that failed. */
export async function fuzz(api: Hosted, count: number): Promise<Figures> {
  const figures: Figures = { sent: 0, statuses: {}, latencies: [] };
  const pro = await api.account('pro');
  const [member, free, foreign] = await Promise.all([
    api.memberKey(pro.accountId),
    api.account('free'),
    api.directory(),
  ]);
  const keys = { admin: pro.key, member, free: free.key };
  let own: string[] = [];
  let slow = Infinity;
  const agent = new Agent({ ca: api.ca, keepAlive: true, maxSockets: CONNECTIONS });

  const send = async (one: Case): Promise<Answered> => {
    const ids = { own: own[figures.sent % Math.max(own.length, 1)] ?? 'none', foreign: foreign.id };
    const header = typeof one.caller === 'string' ? `Bearer ${keys[one.caller]}` : one.caller.header;
    const bytes = one.body === undefined ? undefined : Buffer.from(one.body, one.encoding);
    const path = one.path.replaceAll('{own}', ids.own).replaceAll('{foreign}', ids.foreign).replaceAll(/[{}]/g, '');
    const outgoing = request({
      agent,
      host: '127.0.0.1',
      port: api.port,
      method: one.method,
      path,
      headers: {
        ...one.headers,
        ...(header === null ? {} : { authorization: header.trim() }),
        ...(bytes === undefined
          ? {}
          : one.chunked
            ? { 'transfer-encoding': 'chunked' }
            : { 'content-length': bytes.length }),
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<Answered>();
    let from = performance.now();
    outgoing.once('error', reject).once('finish', () => (from = performance.now()));
    outgoing.once('response', (incoming: IncomingMessage) => {
      let text = '';
      // berth cannot see the method of a head that is too large: the answer to HEAD has a body, which nobody expects.
      if (one.method === 'HEAD' && incoming.statusCode === 431) {
        resolve({ status: 431, type: incoming.headers['content-type'], text, ms: performance.now() - from });
      }
      incoming.setEncoding('utf8').on('data', (part: string) => (text += part));
      incoming.once('error', reject).once('end', () => {
        const type = incoming.headers['content-type'];
        resolve({ status: incoming.statusCode ?? 0, type, text, ms: performance.now() - from });
      });
    });
    outgoing.end(bytes);
    return promise;
  };
  /** At least ten directories, so that most ids exist. */
  const restock = async (): Promise<void> => {
    const { json } = await pro.send('GET', '/directories');
    own = (json as { data: { id: string }[] }).data.map(({ id }) => id);
    while (own.length < 10) own.push((await api.directory({}, pro.send)).id);
  };
  const check = async (one: Case): Promise<void> => {
    let answer = await send(one);
    figures.sent += 1;
    figures.statuses[answer.status] = (figures.statuses[answer.status] ?? 0) + 1;
    figures.latencies.push(answer.ms);
    judge(one, answer);
    for (let tries = 1; answer.ms > slow && tries < TRIES; tries += 1) answer = await send(one);
    assert.ok(answer.ms <= slow, `${answer.ms} ms and more, ${TRIES} times; ${slow} ms are allowed`);
  };
  const batches = fc.array(cases, { minLength: BATCH, maxLength: BATCH });
  try {
    await fc.assert(
      fc.asyncProperty(batches, async (batch) => {
        await restock();
        if (figures.sent > 0) slow = SLOW * percentile(figures.latencies.slice(-BATCH), 0.5);
        // Lets no request continue after a failure: it would disturb the next batch.
        const ended = await Promise.allSettled(batch.map(check));
        for (const [index, result] of ended.entries()) {
          if (result.status === 'fulfilled') continue;
          const shown = JSON.stringify(batch[index]).slice(0, SHOWN);
          throw new Error(`${String(result.reason)} for ${shown}`, { cause: result.reason });
        }
      }),
      { numRuns: Math.ceil(count / BATCH), endOnFailure: true },
    );
  } finally {
    agent.destroy();
  }
  return figures;
}

function judge(one: Case, { status, type, text }: Answered): void {
  const { method, path } = one;
  assert.ok(status < 500, `${status}: ${text}`);
  if (Object.values(one.headers).join('').length > HEADER_LIMIT) assert.equal(status, 431);
  if (method === 'HEAD' || status === 204) return assert.equal(text, '');
  assert.equal(type, 'application/json');
  const json = JSON.parse(text) as Record<string, unknown>;
  const keys = Object.keys(json).join();
  if (status < 300) {
    assert.equal(keys, path.startsWith('/healthz') ? 'status' : 'data');
    assert.ok(method === 'POST' || !text.includes('"sftp_password"'));
    const { data } = json;
    for (const stored of Array.isArray(data) ? data : [data])
      judgeStored(stored as Record<string, unknown> | undefined);
    if (method === 'POST' || method === 'PATCH')
      assert.ok(isReadable(one), 'a body that must not be read was accepted');
  } else if (status === 422 && keys === 'errors') {
    const messages = Object.values(json['errors'] as Record<string, unknown>);
    assert.ok(messages.length > 0);
    for (const list of messages) {
      assert.ok(Array.isArray(list) && list.length > 0 && list.every((message) => typeof message === 'string'));
    }
  } else {
    assert.equal(keys, 'error');
    assert.match(String(json['error']), /^[A-Z][\x20-\x7e]{3,120}$/);
  }
}

/** Accepted values are within the limits, for every endpoint that sets them. */
function judgeStored(directory: Record<string, unknown> | undefined): void {
  for (const [name, value] of Object.entries(directory ?? {})) {
    const limit = LIMITS[name];
    if (limit === undefined || value === null) continue;
    if (typeof limit === 'number') {
      assert.ok(typeof value === 'string' && Array.from(value).length <= limit, `${name} is too long`);
      assert.ok(value.isWellFormed() && !value.includes('\0'), `${name} cannot be stored everywhere`);
    } else {
      assert.ok(Number.isSafeInteger(value) && Number(value) >= limit.min && Number(value) <= limit.max, name);
    }
  }
  if (directory?.['metadata'] !== undefined) {
    assert.ok(Buffer.byteLength(JSON.stringify(directory['metadata'])) <= METADATA_LIMIT, 'metadata is too large');
  }
}

function isReadable({ body = '', encoding, headers }: Case): boolean {
  const bytes = Buffer.from(body, encoding);
  return bytes.length <= BODY_LIMIT && isUtf8(bytes) && (headers['content-type'] ?? '').startsWith('application/json');
}
