/** Every bench, in the order of the table. */
import { create } from './create.ts';
import { get } from './get.ts';
import type { Bench } from './harness.ts';
import { list } from './list.ts';

export const benches: readonly Bench[] = [get, list, create];
