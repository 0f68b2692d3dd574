/** Every route of the dashboard. A page that is missing here fails a test (`pages.test.ts`). */
import type { Demo } from '../../support/demo.ts';

interface Route {
  readonly path: (demo: Demo) => string;
  /** The visitor whose session the page needs; by default an admin. */
  readonly as?: 'nobody' | 'without code';
}

const at = (path: string): Route => ({ path: () => path });

/** Where each route is linked from; null if it is not a page. */
export const PAGES: Readonly<Record<string, Route | null>> = {
  '/dashboard': at('/dashboard'),
  '/dashboard/directories': at('/dashboard/directories'),
  '/dashboard/directories/new': at('/dashboard/directories/new'),
  '/dashboard/directories/import': at('/dashboard/directories/import'),
  '/dashboard/find': null,
  '/dashboard/find/all': null,
  // The former addresses lead to the present ones.
  '/dashboard/directories/:id': null,
  '/dashboard/directories/:id/connect': null,
  '/dashboard/directories/:id/connect/instructions.txt': null,
  '/dashboard/directories/:id/login': null,
  '/dashboard/directories/:id/access': { path: ({ directory }) => `/dashboard/directories/${directory.id}/access` },
  '/dashboard/directories/:id/access/instructions.txt': null,
  '/dashboard/directories/:id/settings': { path: ({ directory }) => `/dashboard/directories/${directory.id}/settings` },
  // Lead to the pages that have taken their place.
  '/dashboard/failing-webhooks': null,
  '/dashboard/sessions': null,
  '/dashboard/account/audit.csv': null,
  '/dashboard/directories/:id/webhook': { path: ({ failing }) => `/dashboard/directories/${failing.id}/webhook` },
  // Redirects to the list of all deliveries.
  '/dashboard/directories/:id/webhook/deliveries': null,
  '/dashboard/directories/:id/webhook/deliveries/:delivery_id': {
    path: ({ failing, deliveryId }) => `/dashboard/directories/${failing.id}/webhook/deliveries/${deliveryId}`,
  },
  '/dashboard/directories/:id/webhook/deliveries/:delivery_id/body': null,
  '/dashboard/directories/:id/files': { path: ({ directory }) => `/dashboard/directories/${directory.id}/files` },
  '/dashboard/directories/:id/files/:upload/preview': {
    path: ({ directory, uploadId }) => `/dashboard/directories/${directory.id}/files/${uploadId}/preview`,
  },
  '/dashboard/directories/:id/files/:upload/view': null,
  '/dashboard/directories/:id/links': {
    path: ({ directory }) => `/dashboard/directories/${directory.id}/links`,
  },
  '/dashboard/directories/:id/activity': { path: ({ directory }) => `/dashboard/directories/${directory.id}/activity` },
  '/dashboard/directories/:id/files/:upload/content': null,
  '/dashboard/directories/:id/files/events': null,
  '/dashboard/api-keys': at('/dashboard/api-keys'),
  '/dashboard/team': at('/dashboard/team'),
  '/dashboard/team/:id': { path: ({ userId }) => `/dashboard/team/${userId}` },
  '/dashboard/account': at('/dashboard/account'),
  '/dashboard/profile': at('/dashboard/profile'),
  '/dashboard/profile/second-factor': at('/dashboard/profile/second-factor'),
  '/dashboard/sign-in': { ...at('/dashboard/sign-in'), as: 'nobody' },
  // Leads back to the sign-in page unless there is something to choose (`sign-in.test.ts`).
  '/dashboard/sign-in/account': null,
  '/dashboard/sign-in/code': { ...at('/dashboard/sign-in/code'), as: 'without code' },
  '/dashboard/link/:token': { path: ({ linkToken }) => `/dashboard/link/${linkToken}`, as: 'nobody' },
  '/dashboard/oidc': null,
  '/dashboard/oidc/callback': null,
  '/dashboard/static/style.css': null,
  '/dashboard/static/script.js': null,
  '/dashboard/static/dom.js': null,
  '/dashboard/static/find.js': null,
  '/dashboard/static/mark.svg': null,
  '/dashboard/deliveries': at('/dashboard/deliveries'),
  '/dashboard/deliveries/events': null,
  '/dashboard/deliveries/export.csv': null,
  '/dashboard/activity': at('/dashboard/activity'),
  '/dashboard/activity/events': null,
  '/dashboard/activity/export.csv': null,
  '/dashboard/directories/:id/files/export.csv': null,
  '/dashboard/directories/:id/activity/events': null,
  '/dashboard/directories/:id/activity/export.csv': null,
};
