/** A bare loop of got POSTs: the most that deliveries could be. */
import { Agent } from 'node:http';
import got from 'got';
import { answerQuestions } from './child.ts';

export interface GotLoopQuestion {
  readonly url: string;
  readonly body: string;
  readonly count: number;
  readonly atATime: number;
}

const agent = { http: new Agent({ keepAlive: true }) };

await answerQuestions(async ({ url, body, count, atATime }: GotLoopQuestion) => {
  const buffer = Buffer.from(body);
  let left = count;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: atATime }, async () => {
      while (left-- > 0) {
        await got.post(url, {
          body: buffer,
          agent,
          headers: { 'content-type': 'application/json' },
          retry: { limit: 0 },
        });
      }
    }),
  );
  agent.http.destroy();
  return { rate: (count * 1000) / (performance.now() - began) };
});
