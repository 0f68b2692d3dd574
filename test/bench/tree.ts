/**
 * A process that runs the berth of a source tree with an sshd of its own: `node tree.ts TREE [FLAG …]`. Each tree sets
 * itself up as its tests do, so that one client can measure two of them. `berth serve` is started as it is shipped, with the
 * bounds of memory of `scripts/lib/run`; flags are further ones of Node's (`--…`, of those that `NODE_OPTIONS` takes) or
 * variables (`NAME=value`). Says how to reach it in a line of JSON, and ends with its standard input.
 */
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type * as Keys from '../support/berth.ts';
import type * as Scratch from '../support/scratch.ts';
import type * as ServedModule from './served.ts';

const [tree = '.', ...flags] = process.argv.slice(2);
const from = (file: string): Promise<unknown> => import(join(resolve(tree), 'test', file));
const { scratch } = (await from('support/scratch.ts')) as typeof Scratch;
const { issueKey } = (await from('support/berth.ts')) as typeof Keys;
const { serveBerth } = (await from('bench/served.ts')) as typeof ServedModule;

using place = scratch();
const isOption = (flag: string): boolean => flag.startsWith('--');
const run = join(resolve(tree), 'scripts', 'lib', 'run');
const wrapper = join(place.dir, 'node');
const variables = flags.filter((flag) => !isOption(flag)).join(' ');
const options = flags.filter(isOption).join(' ');
// It is given a Node and `main.ts`, which `run` knows.
writeFileSync(
  wrapper,
  `#!/bin/sh\nshift\nexec env NODE_OPTIONS='${options}' ${variables} ${run} ${process.execPath} "$@"\n`,
);
chmodSync(wrapper, 0o755);
process.execPath = wrapper;
// An earlier tree may need a flag that asks for the sshd.
const start = serveBerth as (...given: unknown[]) => ReturnType<typeof serveBerth>;
await using berth = await start(place, { sftp: true });
const neighbourKey = await issueKey(berth.config);
console.log(JSON.stringify({ config: berth.config, key: berth.key, neighbourKey, pid: berth.serve.pid }));
await once(process.stdin.resume(), 'end');
