/** GET /api/v1/directories */
import type { WhileUnchanged } from '../../db/while-unchanged.ts';
import type { DirectoryQueries } from '../../directories/queries.ts';
import type { Endpoint } from '../authentication.ts';
import { dataResponse } from '../json-response.ts';
import { readPage } from '../page.ts';
import { listItem } from './directory-json.ts';

export interface ListAnswer {
  /** JSON text. */
  readonly data: string;
  readonly headers: Record<string, string>;
}

/** What was answered is kept as text while nothing changes: clients poll. */
export function listDirectories(directories: DirectoryQueries, answers: WhileUnchanged<ListAnswer>): Endpoint<'/'> {
  return async (c, { accountId }) => {
    const read = async (): Promise<ListAnswer> => {
      const externalId = c.req.query('external_id');
      const { rows, headers } = await readPage(c, (page) => directories.list(accountId, { ...page, externalId }));
      return { data: JSON.stringify(rows.map(listItem)), headers };
    };
    const answer = (await answers.get(`${accountId} ${c.req.url}`, read)) ?? (await read());
    return dataResponse(answer.data, 200, answer.headers);
  };
}
