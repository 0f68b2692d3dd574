/** The name of a browser, from its `User-Agent`; the header itself when it is unknown. */

/** The first one in the header counts, since each browser also names some of those after it. */
const BROWSERS = ['Edg=Edge', 'OPR=Opera', 'Firefox', 'FxiOS=Firefox', 'Chrome', 'CriOS=Chrome', 'Safari'];
const SYSTEMS = ['Android', 'iPhone', 'iPad', 'Windows', 'CrOS=ChromeOS', 'Mac OS X=macOS', 'Linux'];

export function browserName(agent: string): string {
  const browser = firstIn(agent, BROWSERS, '/');
  const system = firstIn(agent, SYSTEMS, '');
  if (browser === undefined) return agent === '' ? 'unknown' : agent;
  return system === undefined ? browser : `${browser} on ${system}`;
}

function firstIn(agent: string, names: readonly string[], end: string): string | undefined {
  const known = names.map((name) => name.split('='));
  return known.find(([part]) => agent.includes(`${part}${end}`))?.at(-1);
}
