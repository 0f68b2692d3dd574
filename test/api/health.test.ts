/** GET /healthz */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StartingError } from '../../src/doors/http/health.ts';
import { hosted } from '../support/hosted.ts';
import { scratch } from '../support/scratch.ts';

test('200 while everything works, 503 when something does not, without a key and without details', async () => {
  using place = scratch();
  let broken = false;
  await using api = await hosted(place, {
    checkHealth: async () => {
      if (broken) throw new Error('inner detail');
    },
  });
  const ask = () => api.send('GET', '//healthz', { authorization: null });
  const well = await ask();
  assert.deepEqual([well.status, well.json], [200, { status: 'ok' }]);
  broken = true;
  const ill = await ask();
  assert.deepEqual([ill.status, ill.json], [503, { error: 'Service unavailable' }]);
  assert.ok(api.log.some((line) => line.includes('inner detail')));
});

test('503 while berth starts, and no error in the log', async () => {
  using place = scratch();
  await using api = await hosted(place, { checkHealth: () => Promise.reject(new StartingError()) });
  const { status, json } = await api.send('GET', '//healthz', { authorization: null });
  assert.deepEqual([status, json], [503, { error: 'Service unavailable' }]);
  const lines = api.log.filter((line) => line.includes('does not listen yet'));
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).level),
    [30],
    'pino: info',
  );
});
