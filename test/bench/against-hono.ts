/** An endpoint of berth beside a bare Hono route that returns the same bytes from the same TLS server. */
import { scratch } from '../support/scratch.ts';
import { type Child, processorTime, startChild } from './child.ts';
import { type Figure, inTurns, median, rateFigure, short, type Size } from './harness.ts';
import { load } from './load.ts';
import { type Served, serveBerth } from './served.ts';

/** `prepare` fills the berth and says which path to ask for. */
export async function againstHono(
  what: string,
  least: number,
  size: Size,
  prepare: (berth: Served) => Promise<string>,
): Promise<Figure[]> {
  using place = scratch();
  await using berth = await serveBerth(place);
  const path = await prepare(berth);
  const { text: body } = await berth.api.send('GET', `/${path}`);
  await using bare: Child = startChild('bare-hono.ts');
  const { cert, key } = berth.config.tls;
  const { port } = await bare.ask<{ port: number }>({ cert, key, path: `/api/v1/${path}`, body });

  const common = {
    ca: berth.ca,
    path: `/api/v1/${path}`,
    key: berth.key,
    connections: size === 'tiny' ? 4 : 32,
    seconds: size === 'tiny' ? 0.1 : 2,
  };
  const run = (target: number, pid: number) => async () => {
    const before = processorTime(pid);
    const rate = await load({ ...common, port: target });
    return { rate, cost: ((processorTime(pid) - before) * 1e6) / (rate * common.seconds) };
  };
  const measured = await inTurns(
    size === 'tiny' ? 1 : 5,
    run(berth.config.api.port, berth.serve.pid),
    run(port, bare.pid),
  );
  const rates = { ours: measured.ours.map(({ rate }) => rate), theirs: measured.theirs.map(({ rate }) => rate) };
  const cost = (runs: readonly { cost: number }[]): string => short(median(runs.map((one) => one.cost)));
  const figure = rateFigure(what, least, rates, 'requests/s');
  return [
    { ...figure, detail: `${figure.detail}; ${cost(measured.ours)} of ${cost(measured.theirs)} µs of processor` },
  ];
}
