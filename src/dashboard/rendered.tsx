/** A part of a page on its own, such as live pages send: its components find the request that it is for. */
import { html } from 'hono/html';
import type { Child } from 'hono/jsx';
import { RequestContext } from 'hono/jsx-renderer';
import type { PageContext } from './environment.ts';

export async function renderedIn(c: PageContext, part: Child): Promise<string> {
  const page = await html`${<RequestContext.Provider value={c}>{part}</RequestContext.Provider>}`;
  return page.toString();
}
