/** Logins per second, four at a time, until the SFTP session is open. */
import { connect } from '../support/sftp-client.ts';
import { bothSshds, type Side } from './beside-sshd.ts';
import { type Bench, type Figure, inTurns, rateFigure } from './harness.ts';

const AT_A_TIME = 4;

export const logins: Bench = {
  name: 'logins',
  async run(size) {
    await using both = await bothSshds();
    const [rounds, count] = size === 'tiny' ? [1, 4] : [7, 60];
    const figures: Figure[] = [];
    for (const method of ['key', 'password'] as const) {
      const run = (side: Side) => (): Promise<number> => logIn(side, method, count);
      const rates = await inTurns(rounds, run(both.ours), run(both.theirs));
      figures.push(rateFigure(`logins by ${method}, 4 at a time, beside a plain sshd`, 0.95, rates, 'logins/s'));
    }
    return figures;
  },
};

async function logIn(side: Side, method: 'key' | 'password', count: number): Promise<number> {
  const { port, username, password } = side.login;
  const secret = method === 'key' ? { privateKey: side.privateKey } : { password };
  let left = count;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      while (left-- > 0) {
        await using connection = await connect({ port, username, ...secret });
        await connection.sftp();
      }
    }),
  );
  return (count * 1000) / (performance.now() - began);
}
