/** Prometheus' tool for rules and metrics. scripts/test --all gets it from Debian's package. */
import { existsSync } from 'node:fs';
import { spawnSync } from 'node:child_process';

const FETCHED = '/var/cache/berth-promtool/promtool';

/** The program; undefined when this machine has none. */
export const promtool = ['promtool', FETCHED].find((program) =>
  program.startsWith('/') ? existsSync(program) : spawnSync(program, ['--version']).status === 0,
);
