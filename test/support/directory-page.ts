/** A directory's page, as its tests read it, and what the API, a login and the audit say of what was done there. */
import assert from 'node:assert/strict';
import { openDatabase } from '../../src/foundation/db/open.ts';
import type { TestBerth } from './berth.ts';
import type { PageAnswer, Visitor } from './dashboard.ts';
import { dataOf } from './field-sets.ts';
import { sftp } from './openssh-client.ts';
import type { Scratch } from './scratch.ts';

export function dashboardOf(berth: TestBerth) {
  return { config: berth.config, port: berth.service().dashboardPort ?? 0 };
}

export const pathOf = ({ id }: { id: string }): string => `/dashboard/directories/${id}`;

export const unescaped = (html: string): string =>
  html
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

export const passwordIn = ({ text }: PageAnswer): string | undefined =>
  /data-secret="sftp-password"[^>]*>([^<]*)</.exec(text)?.[1];

/** The message beside a field. */
export const problemIn = ({ text }: PageAnswer, field: string): string =>
  unescaped(new RegExp(`id="${field}-error"[^>]*>([^<]*)<`).exec(text)?.[1] ?? '');

/** What a form does that is taken: the page after it. */
export async function done(visitor: Visitor, path: string, fields: Record<string, string> = {}): Promise<PageAnswer> {
  const answer = await visitor.submit(path, fields);
  assert.equal(answer.status, 200, unescaped(answer.text.replaceAll(/<[^>]*>/g, ' ')));
  assert.match(answer.text, /class="notice"/);
  return answer;
}

/** Whether one gets in. */
export async function opens(place: Scratch, berth: TestBerth, username: string, password: string): Promise<boolean> {
  const login = { port: berth.config.sftp.port, username, password };
  return (await sftp(place.dir, login, ['pwd'])).code === 0;
}

/** As the API has it. */
export const shownByApi = async (
  berth: TestBerth,
  { id }: { id: string },
  part = '',
): Promise<Record<string, unknown>> => dataOf(await berth.send('GET', `/directories/${id}${part}`));

/** What the audit has of a directory, oldest first. */
export async function audited(berth: TestBerth, { id }: { id: string }): Promise<string[]> {
  const database = await openDatabase(berth.config.database);
  const rows = await database.reads
    .selectFrom('audit')
    .select(['action', 'key_id', 'route', 'changes'])
    .where('directory_id', '=', id)
    .orderBy('id')
    .execute();
  await database.close();
  return rows.map(({ action, key_id, route, changes }) => {
    const fields = Object.keys(JSON.parse(changes) as object).join(',');
    return `${action} ${fields} by ${key_id} through ${route}`;
  });
}

/** The question that the first button with this label sends, about that if it is given. */
export function questionIn(text: string, label: string, about = ''): { _ask: string } {
  const [, question = ''] = new RegExp(`name="_ask" value="(${label}\\n${about}[^"]*)"`).exec(unescaped(text)) ?? [];
  return { _ask: question };
}
