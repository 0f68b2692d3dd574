/** Whether a request comes from a page of its session: by what each form of that session carries. */
import { timingSafeEqual } from 'node:crypto';
import type { PageContext } from './environment.ts';

export function isFormOf(c: PageContext, token: string): boolean {
  const [given, expected] = [Buffer.from(token), Buffer.from(c.get('csrf'))];
  return given.length === expected.length && timingSafeEqual(given, expected);
}
