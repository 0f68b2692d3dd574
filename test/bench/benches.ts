/** Every bench, in the order of the table. */
import { announce } from './announce.ts';
import { brokenOff } from './broken-off.ts';
import { create } from './create.ts';
import { get } from './get.ts';
import type { Bench } from './harness.ts';
import { largeUploads } from './large-uploads.ts';
import { limitedKeys } from './limited-keys.ts';
import { logins } from './logins.ts';
import { manyDirectories } from './many-directories.ts';
import { manyFiles } from './many-files.ts';
import { neighbours } from './neighbours.ts';
import { renames } from './renames.ts';
import { smallUploads } from './small-uploads.ts';
import { start } from './start.ts';
import { temporaryNames } from './temporary-names.ts';

export const benches: readonly Bench[] = [
  create,
  get,
  smallUploads,
  announce,
  largeUploads,
  logins,
  manyDirectories,
  manyFiles,
  limitedKeys,
  start,
  temporaryNames,
  renames,
  neighbours,
  brokenOff,
];
