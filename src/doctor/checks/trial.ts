/** Checks for the admin key that scripts/start leaves in a file, which should not exist in production. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Check, ok, warn } from '../finding.ts';

export const checkTrial: Check = ({ stateDir }) => {
  const key = join(stateDir, 'demo-key');
  if (!existsSync(key)) return [ok('nothing is left of a trial')];
  const remedy =
    'before production: run scripts/install, which removes both, or berth account delete, then remove that file';
  return [warn(`the account "Demo" of scripts/start has an admin key in ${key}`, remedy)];
};
