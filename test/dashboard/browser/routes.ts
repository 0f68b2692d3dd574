/** Every route of the dashboard. A page that is missing here fails a test (`pages.test.ts`). */
import type { Demo } from '../../support/demo.ts';

/** For each route where one finds it; null for what is no page. */
export const PAGES: Readonly<Record<string, ((demo: Demo) => string) | null>> = {
  '/dashboard': () => '/dashboard',
  '/dashboard/directories': () => '/dashboard/directories',
  '/dashboard/api-keys': () => '/dashboard/api-keys',
  '/dashboard/api-keys/:id/revoke': ({ keyId }) => `/dashboard/api-keys/${keyId}/revoke`,
  '/dashboard/sign-in': () => '/dashboard/sign-in',
  '/dashboard/link/:token': () => '/dashboard/link/unknown',
  '/dashboard/static/style.css': null,
  '/dashboard/static/script.js': null,
};

/** Whether it is for those who are not signed in. */
export const isOpen = (route: string): boolean => /^\/dashboard\/(sign-in|link)/.test(route);
