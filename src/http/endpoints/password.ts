/** POST /api/v1/directories/:id/password */
import type { ChangeOptions } from '../../directories/change.ts';
import { type Renewed, renewPassword } from '../../directories/update.ts';
import type { DirectoryQueries } from '../../directories/view.ts';
import { type Endpoint, requireAdmin } from '../access.ts';
import { fullDirectory } from '../directory-json.ts';
import { CREATED } from '../openapi/examples.ts';
import { actorOf, ownDirectory } from '../own-directory.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { CreatedDirectory, data } from '../schemas.ts';
import { passwordUnused, warning } from '../../web/warnings.ts';

export function passwordRoutes(directories: DirectoryQueries, rules: ChangeOptions): Route[] {
  const renew: Endpoint<'/:id'> = async (c, principal, keep) => {
    const { id } = await ownDirectory(directories, principal, c.req.param('id'));
    requireAdmin(principal);
    const answer = ({ directory, password }: Renewed): Response =>
      dataResponse(fullDirectory(directory, password), 200, {
        // The only response with this password.
        ...SECRET,
        ...warning(passwordUnused(directory)),
      });
    return answer(await renewPassword(rules, principal.accountId, id, actorOf(c, principal), keep(answer)));
  };

  return [
    route('POST', '/api/v1/directories/:id/password', renew, {
      id: 'renewPassword',
      tag: 'Access',
      summary: 'Replace the password by a new one',
      description:
        'The answer is that of creating a directory, and the only one that shows the new password: it also makes up for a create answer that was lost. ' +
        'From the next login on the new password counts and the old one is refused; live sessions go on. ' +
        'While `auth_mode` is `public_key` nobody logs in with either: the new one is kept for when the mode changes, and a `Warning` header says so.',
      role: 'admin',
      answer: {
        status: 200,
        description: 'The directory with its new password',
        schema: data(CreatedDirectory),
        example: CREATED,
        headers: ['Warning'],
      },
      refusals: [404, 507],
    }),
  ];
}
