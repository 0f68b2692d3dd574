/** docs/design.md names every package that berth needs in production, and how many each one brings. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

interface Locked {
  readonly dev?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const { packages } = JSON.parse(read('package-lock.json')) as { packages: Readonly<Record<string, Locked>> };
const named = Object.keys(packages['']?.dependencies ?? {});
const design = read('docs/design.md');
const section = /^### \d+\. Every package is a supplier$([^]*?)(?=^### |(?![^]))/m.exec(design)?.[1] ?? '';

/** Where that package finds another one: in its own node_modules, or in those of a folder above. */
function found(from: string, name: string): string {
  for (let at = from; ; at = at.replace(/(^|\/)node_modules\/(@[^/]+\/)?[^/]+$/, '')) {
    const path = `${at === '' ? '' : `${at}/`}node_modules/${name}`;
    if (packages[path] !== undefined) return path;
    assert.notEqual(at, '', `${from} needs ${name}, which the lock file lacks`);
  }
}

/** The packages behind one that package.json names, without others that it names. */
function brought(path: string, all = new Set<string>()): Set<string> {
  const { dependencies, optionalDependencies } = packages[path] ?? {};
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const next = found(path, name);
    if (named.includes(name) || all.has(next)) continue;
    brought(next, all.add(next));
  }
  return all;
}

test('the table of packages has every one that package.json names, with the number that it brings', () => {
  const rows = [...section.matchAll(/^\| ([^ ]+) \|[^|]+\| (\d+) \|/gm)].map(([, name, count]) => `${name}: ${count}`);
  const needed = named.map((name) => `${name}: ${brought(`node_modules/${name}`).size}`);
  assert.deepEqual(rows.toSorted(), needed.toSorted());
});

test('no production package comes from elsewhere, and the section says how many there are', () => {
  const production = Object.keys(packages).filter((path) => path !== '' && packages[path]?.dev !== true);
  const explained = new Set(named.flatMap((name) => [`node_modules/${name}`, ...brought(`node_modules/${name}`)]));
  assert.deepEqual(production.toSorted(), [...explained].toSorted());
  assert.equal(/has (\d+) production packages/.exec(section)?.[1], String(production.length));
});
