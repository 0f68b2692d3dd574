/** Stands for removals that wait (arrivals/files/deferred-removal.ts): without sessions, none does. */
import type { Deferral } from '../../src/arrivals/files/deferred-removal.ts';

export const noDeferral: Deferral = {
  mayBeAskedFor: async () => false,
  added: () => undefined,
  endOf: async () => undefined,
  endAt: async () => undefined,
};
