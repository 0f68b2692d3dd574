/**
 * Python programs from PyPI, each in a virtual environment outside of the checkout, so that only the first clone on a machine
 * installs them. That takes 7 to 12 s of processor time for each.
 */
import { createHash } from 'node:crypto';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

const FOLDER = '/var/cache/berth-python';

/** Returns the folder of the programs that a requirements.txt names. @throws when Python or the registry is missing. */
export async function pythonEnvironment(requirements: string): Promise<string> {
  const { stdout: python } = await run('python3', ['-VV']);
  const digest = createHash('sha256').update(python).update(readFileSync(requirements)).digest('hex');
  const environment = `${FOLDER}/${digest.slice(0, 16)}`;
  const install = `
    [ ! -e "$0/complete" ] || exit 0
    rm -rf "$0"
    python3 -m venv "$0"
    "$0/bin/pip" install --quiet --disable-pip-version-check --requirement "$1"
    touch "$0/complete"`;
  await run('mkdir', ['-p', FOLDER]);
  await run('flock', [FOLDER, 'sh', '-euc', install, environment, requirements]);
  return `${environment}/bin`;
}
