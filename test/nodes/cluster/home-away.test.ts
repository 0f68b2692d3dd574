/**
 * Changes whose home is cut off or without power: 503 in time, never a false answer, and the change is in force once the
 * home is back. The home's clock is five minutes ahead, which makes no webhook early or repeated.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { ApiAnswer } from '../../support/api-client.ts';
import { webhookOf } from '../../support/berth.ts';
import { assertWithin } from '../../support/long.ts';
import { until } from '../../support/poll.ts';
import type { Received } from '../../support/receiver.ts';
import type { Created } from '../nodes-place.ts';
import { AHEAD, type Cluster, cluster, clustered, type ClusterNode, letsIn, put } from './cluster.ts';

/** In ms. */
const LONGEST = 10_000;

/** From the cable's return until logins are refused, in ms. A refusal takes about 2 s because of PAM. */
const FOLLOWED = 15_000;

/** The first wait before a retry at least, in ms: 0.5 s, less 20 %. */
const RETRIED_AFTER = 400;

const [SLOW, AGAIN] = ['slow', 'again'];

/** One directory for each change. */
interface Changed {
  readonly password: Created;
  readonly suspended: Created;
  readonly deleted: Created;
}

const changes = {
  password: (node: ClusterNode, { id }: Created) => node.send('POST', `/directories/${id}/password`),
  suspended: (node: ClusterNode, { id }: Created) =>
    node.send('PATCH', `/directories/${id}/access`, { json: { suspended: true } }),
  deleted: (node: ClusterNode, { id }: Created) => node.send('DELETE', `/directories/${id}`),
};
const CHANGES = ['password', 'suspended', 'deleted'] as const;

async function changedOn({ directoryOn }: Cluster, home: ClusterNode): Promise<Changed> {
  return {
    password: await directoryOn(home),
    suspended: await directoryOn(home),
    deleted: await directoryOn(home),
  };
}

/** It says the truth in time: nothing has been done yet, and when to ask again. */
async function refused(asked: Promise<ApiAnswer>): Promise<void> {
  const began = performance.now();
  const { status, headers, text } = await asked;
  const took = performance.now() - began;
  assert.equal(status, 503, text);
  assert.ok(Number(headers['retry-after']) > 0);
  assertWithin(LONGEST, took, 'ms until the answer');
}

/** The changes were requested, but are not applied yet. */
async function askedInVain(through: ClusterNode, of: Changed): Promise<void> {
  await Promise.all(CHANGES.map((change) => refused(changes[change](through, of[change]))));
  const shown = await through.send('GET', `/directories/${of.suspended.id}/access`);
  assert.match(shown.text, /"suspended":true/);
  assert.equal((await through.send('GET', `/directories/${of.deleted.id}`)).status, 404);
}

/** A repetition of the changes reports that they are in force, and they are. */
async function repeated(through: ClusterNode, of: Changed): Promise<void> {
  const answers = await Promise.all(CHANGES.map((change) => changes[change](through, of[change])));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 204],
  );
  const [{ json } = assert.fail()] = answers;
  assert.ok(await letsIn(of.password, (json as { data: { sftp_password: string } }).data.sftp_password));
  await nobodyIn(of);
}

async function nobodyIn(of: Changed): Promise<void> {
  const entered = await Promise.all(CHANGES.map((change) => letsIn(of[change])));
  assert.deepEqual(entered, [false, false, false]);
}

/** Tries until one is refused. @returns when that was. */
async function firstRefusal(directory: Created): Promise<number> {
  while (await letsIn(directory));
  return performance.now();
}

/** Takes its time for one upload, and the other only when it comes again. */
function respond(response: ServerResponse, request: Received, index: number): void {
  const { filename } = webhookOf(request);
  if (filename === SLOW) setTimeout(() => response.writeHead(204).end(), 2000);
  else response.writeHead(index < 2 ? 500 : 204).end();
}

/** The other node also claims due deliveries, and by its own clock both would have been due long ago. */
async function webhooksInTime({ receiver: { requests } }: Cluster, directory: Created): Promise<void> {
  await put(directory, SLOW);
  await put(directory, AGAIN);
  await until('one has come again', () => requests.length >= 3);
  await wait(3000);
  const came = requests.map((request) => ({ at: request.at, name: webhookOf(request).filename }));
  assert.deepEqual(came.map(({ name }) => name).sort(), [AGAIN, AGAIN, SLOW]);
  const [first, second] = came.filter(({ name }) => name === AGAIN).map(({ at }) => at);
  assert.ok(Number(second) - Number(first) >= RETRIED_AFTER);
}

test('changes whose home is cut off, or has no power', clustered, async (t) => {
  await using place = await cluster({ a: {}, b: { settings: AHEAD } }, { respond });
  const [a, b] = [place.node('a'), place.node('b')];
  const other = await place.directoryOn(b);

  await t.test('webhooks are sent in their time', async () => webhooksInTime(place, await place.directoryOn(a)));

  await t.test('cut off from PostgreSQL: in force within seconds of its return', async (each) => {
    const of = await changedOn(place, b);
    await b.cable.unplug();
    await askedInVain(a, of);
    await b.cable.plug();
    const back = performance.now();
    for (const [index, at] of (await Promise.all(CHANGES.map((change) => firstRefusal(of[change])))).entries()) {
      each.diagnostic(`${CHANGES[index]}: refused ${Math.round(at - back)} ms after the cable is in`);
      assertWithin(FOLLOWED, at - back, 'ms until the refusal');
    }
    await repeated(a, of);
  });

  await t.test('without power: in force before its sshd accepts a login', async () => {
    const of = await changedOn(place, b);
    await b.powerOff();
    await askedInVain(a, of);
    await b.startSshd();
    await nobodyIn(of);
    assert.ok(await letsIn(other));
    await b.startHealthy();
    await repeated(a, of);
  });
});
