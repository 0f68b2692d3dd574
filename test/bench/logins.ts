/** Logins by key per second, four at a time, until the SFTP session is open, beside a plain sshd. */
import { connect } from '../support/sftp-client.ts';
import { besidePlain, rateFigures, type Side } from './beside-plain.ts';
import type { Bench } from './harness.ts';

const AT_A_TIME = 4;

export const logins: Bench = {
  name: 'logins',
  async run(size, trees) {
    await using sides = await besidePlain(trees);
    const [rounds, count] = size === 'tiny' ? [1, 4] : [7, 60];
    const what = 'logins by key, four at a time, beside a plain sshd';
    return await rateFigures(what, '/s', 0.9, trees, sides.all, rounds, (side) => logIn(side, count));
  },
};

async function logIn({ login: { port, username }, privateKey }: Side, count: number): Promise<number> {
  let left = count;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      while (left-- > 0) {
        await using connection = await connect({ port, username, privateKey });
        await connection.sftp();
      }
    }),
  );
  return (count * 1000) / (performance.now() - began);
}
