/** Sending a delivery again, and what the log and the observer get about attempts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ValidationError } from '../../src/foundation/base/errors.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { logHistory } from '../../src/arrivals/uploads/record/transfer-history.ts';
import { Dispatcher } from '../../src/deliveries/webhooks/dispatcher.ts';
import { guardedAgents } from '../../src/deliveries/webhooks/destination-guard.ts';
import type { AttemptSeen } from '../../src/deliveries/webhooks/outcome.ts';
import { replay } from '../../src/deliveries/webhooks/replay.ts';
import { createSender } from '../../src/deliveries/webhooks/send.ts';
import { until } from '../support/poll.ts';
import { receiver } from '../support/receiver.ts';
import { ACCOUNT, directory, outboxPlace } from './outbox-place.ts';

type Line = Record<string, unknown>;

test('a failed delivery is sent again as a new one, the same bytes; lines name directory and external_id', async () => {
  await using place = await outboxPlace();
  let status = 503;
  await using hook = await receiver({ respond: (response) => void response.writeHead(status).end() });
  const lines: Line[] = [];
  const seen: AttemptSeen[] = [];
  const sender = createSender(guardedAgents(['127.0.0.0/8']), '1');
  const start = () =>
    new Dispatcher({
      ...place,
      log: createLog('debug', { write: (line) => void lines.push(JSON.parse(line) as Line) }),
      retryDelays: [0.01, 0.01, 0.01],
      send: sender.send,
      observe: (attempt) => void seen.push(attempt),
    });
  const id = await place.put(hook.url);
  const target = { accountId: ACCOUNT, id: directory(hook.url).id };
  const rules = { ...place, wake: () => undefined };
  await assert.rejects(replay(rules, target, id), ValidationError);
  const dispatcher = start();
  await place.until(id, 'failed');
  await dispatcher.close();

  status = 204;
  const { id: again } = await replay(rules, target, id);
  const next = start();
  await place.until(again, 'delivered');
  await until('the attempt was observed', () => seen.length === 5);
  await next.close();
  sender.close();
  assert.deepEqual(
    seen.map(({ outcome }) => outcome),
    ['retry', 'retry', 'retry', 'failed', 'delivered'],
  );
  assert.ok(seen.every(({ sinceClose }) => sinceClose > 0));
  const [first, last] = [hook.requests[0], hook.requests[4]];
  assert.deepEqual(first?.body, last?.body);
  assert.equal(first?.headers['x-service-signature'], last?.headers['x-service-signature']);
  assert.notEqual(first?.headers['webhook-id'], last?.headers['webhook-id']);
  assert.equal((await place.delivery(id)).state, 'failed');
  assert.equal(lines.length, 5);
  const { directory: named } = lines[0] ?? {};
  assert.deepEqual(
    lines.map((line) => [line['directory'], line['external_id']]),
    lines.map(() => [named, 'order "42"']),
  );
});

test('transfers are lines with directory and external_id: what was cut off at info, all others at debug', () => {
  const row = {
    at: 1,
    directory_id: 'd',
    account_id: 'a',
    username: 'u',
    address: '::1',
    session_pid: 7,
    path: 'p',
    from_path: null,
    bytes: 3,
    began_at: null,
  };
  const recorded = (['uploaded', 'upload-dropped'] as const).map((event) => ({
    row: { ...row, event },
    directory: {
      id: 'd',
      account_id: 'a',
      slug: 's',
      external_id: 'order-1',
      webhook_url: null,
      uses_account_webhook: 1 as const,
      sftp_username: 'u',
    },
  }));
  const said = (level: 'info' | 'debug'): unknown[] => {
    const lines: Line[] = [];
    logHistory(createLog(level, { write: (line) => void lines.push(JSON.parse(line) as Line) }), recorded);
    return lines.map((line) => [line['msg'], line['directory'], line['external_id'], line['path'], line['bytes']]);
  };
  assert.deepEqual(said('info'), [['upload-dropped', 'd', 'order-1', 'p', 3]]);
  assert.deepEqual(said('debug'), [
    ['uploaded', 'd', 'order-1', 'p', 3],
    ['upload-dropped', 'd', 'order-1', 'p', 3],
  ]);
});
