/** Ends the session that the request belongs to. */
import type { Hono } from 'hono';
import type { Database } from '../../db/open.ts';
import { endSession } from '../../users/sessions.ts';
import type { DashboardEnv } from '../environment.ts';
import { clearSession } from '../session-cookie.ts';

export function signOut(app: Hono<DashboardEnv>, { db }: Pick<Database, 'db'>): void {
  app.post('/dashboard/sign-out', async (c) => {
    const { userId, sessionId } = c.get('user');
    await endSession(db, userId, sessionId);
    clearSession(c);
    return c.redirect('/dashboard/sign-in', 303);
  });
}
