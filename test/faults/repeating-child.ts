/**
 * The process that `crash-repeated.test.ts` lets die: berth itself, and a client that sends it POSTs with Idempotency-Keys.
 *
 *   node repeating-child.ts STEP API_KEY REQUESTS      STEP: die after that many steps from the first request on
 */
import { dieAfter } from './dying.ts';
import { readFileSync } from 'node:fs';
import { readConfig } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import { startService } from '../../src/service/service.ts';
import { apiClient } from '../support/api-client.ts';

/** A path, an Idempotency-Key and a body. */
export type Request = readonly [path: string, key: string, body: object];

export interface Answered {
  readonly path: string;
  readonly key: string;
  readonly status: number;
  readonly text: string;
}

const [step = '', apiKey = '', requests = '[]'] = process.argv.slice(2);
const config = readConfig(process.env);
const service = await startService(config, { log: createLog('silent') });
await service.covered;
using client = apiClient({ port: service.port, ca: readFileSync(config.tls.cert), key: apiKey });
dieAfter(step === 'never' ? Infinity : Number(step));
for (const [path, key, json] of JSON.parse(requests) as Request[]) {
  const { status, text } = await client.send('POST', path, { json, headers: { 'idempotency-key': key } });
  process.stdout.write(`${JSON.stringify({ path, key, status, text } satisfies Answered)}\n`);
}
dieAfter(Infinity);
await service.close();
process.stdout.write('finished\n');
process.exit(0);
