/** Every bench, in the order of the table. */
import { create } from './create.ts';
import { get } from './get.ts';
import type { Bench } from './harness.ts';
import { largeUploads } from './large-uploads.ts';
import { list } from './list.ts';
import { logins } from './logins.ts';
import { smallUploads } from './small-uploads.ts';

export const benches: readonly Bench[] = [get, list, create, logins, largeUploads, smallUploads];
