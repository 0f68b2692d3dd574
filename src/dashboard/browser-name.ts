/** A browser in words, from its `User-Agent`: the text itself where it says nothing known. */

/** The first that it names: each also names those after it. */
const BROWSERS = {
  'Edg/': 'Edge',
  'OPR/': 'Opera',
  'Firefox/': 'Firefox',
  'FxiOS/': 'Firefox',
  'Chrome/': 'Chrome',
  'CriOS/': 'Chrome',
  'Safari/': 'Safari',
};
const SYSTEMS = {
  Android: 'Android',
  iPhone: 'iPhone',
  iPad: 'iPad',
  Windows: 'Windows',
  CrOS: 'ChromeOS',
  'Mac OS X': 'macOS',
  Linux: 'Linux',
};

export function browserName(agent: string): string {
  const browser = firstIn(agent, BROWSERS);
  const system = firstIn(agent, SYSTEMS);
  if (browser === undefined) return agent === '' ? 'unknown' : agent;
  return system === undefined ? browser : `${browser} on ${system}`;
}

function firstIn(agent: string, names: Readonly<Record<string, string>>): string | undefined {
  return Object.entries(names).find(([part]) => agent.includes(part))?.[1];
}
