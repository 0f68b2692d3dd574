/**
 * `npm run torture [-- NAME [OPTIONS]]`: runs one of the scripts beside this file, or all of them one after the other.
 * Each takes minutes, prints its figures as a line of JSON, and fails when they are not as they should be.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Beside the scripts: what they share. */
const NO_SCRIPTS = new Set(['crowded', 'run', 'stock-sshd', 'swapping', 'uploader']);

const [wanted, ...options] = process.argv.slice(2);
const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => basename(file, '.ts'))
  .filter((name) => !NO_SCRIPTS.has(name))
  .sort();

if (wanted !== undefined && !names.includes(wanted)) {
  process.stderr.write(`no such script: ${wanted}; there is ${names.join(', ')}\n`);
  process.exit(2);
}
for (const name of wanted === undefined ? names : [wanted]) {
  process.stderr.write(`== ${name}\n`);
  const file = fileURLToPath(new URL(`./${name}.ts`, import.meta.url));
  const { status } = spawnSync(process.execPath, [file, ...options], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
