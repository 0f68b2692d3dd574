/** What scripts/start made to try berth with: an admin key in a file is nothing for production. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Check, ok, warn } from '../finding.ts';

export const checkTrial: Check = ({ stateDir }) => {
  const key = join(stateDir, 'demo-key');
  if (!existsSync(key)) return [ok('nothing is left of a trial')];
  const remedy =
    'before production: scripts/install, which removes both, or berth account delete and then remove that file';
  return [warn(`the account "Demo" of scripts/start has an admin key in ${key}`, remedy)];
};
