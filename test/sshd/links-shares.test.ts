/** Clients that send slowly, by links: what they keep from others. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { test } from 'node:test';
import type { TestBerth } from '../support/berth.ts';
import { inTransit, put, uploadLink } from '../support/links.ts';
import { until } from '../support/poll.ts';
import { sharedBerth } from '../support/shared-berth.ts';

const shared = sharedBerth();

/** Begins a `PUT` of two bytes from that address, and sends the first. */
async function slowPut(berth: TestBerth, path: string, localAddress: string): Promise<ClientRequest> {
  const ca = readFileSync(berth.config.tls.cert);
  const to = { host: '127.0.0.1', port: berth.service().port, ca, path, agent: false };
  const sent = request({ ...to, localAddress, method: 'PUT', headers: { 'content-length': '2' } });
  await once(sent, 'socket');
  sent.write('1');
  return sent;
}

test('slow uploads take only the share of their client and their link: others of the link and of the directory get in', async () => {
  await using berth = await shared();
  const directory = await berth.directory();
  const link = await uploadLink(berth, directory, 'in/');
  const others = await uploadLink(berth, directory, 'other');
  const before = inTransit(berth).length;
  const begun: ClientRequest[] = [];
  const fill = async (address: string): Promise<void> => {
    for (let each = 0; each < 8; each += 1) begun.push(await slowPut(berth, `${link}${begun.length}`, address));
    await until('they are under way', () => inTransit(berth).length === before + begun.length);
  };
  const put2 = async (address: string): Promise<number | undefined> => {
    const sent = await slowPut(berth, `${link}more`, address);
    sent.end('2');
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.resume();
    return answer.statusCode;
  };
  await fill('127.0.0.2');
  assert.equal(await put2('127.0.0.2'), 429, 'one more of the same client');
  assert.equal(await put2('127.0.0.3'), 201, 'another client of the link');
  await fill('127.0.0.4');
  assert.equal(await put2('127.0.0.3'), 429, 'the link has its share');
  assert.equal((await put(berth, others, 'xy')).status, 201, 'another link of the directory');
  const answers = begun.map((sent) => once(sent, 'response') as Promise<[IncomingMessage]>);
  for (const sent of begun) sent.end('2');
  for (const [answer] of await Promise.all(answers)) {
    assert.equal(answer.statusCode, 201);
    answer.resume();
  }
  assert.equal(await put2('127.0.0.2'), 201);
});
