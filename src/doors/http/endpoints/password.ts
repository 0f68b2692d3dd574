/** POST /api/v1/directories/:id/password */
import { type Renewed, renewPassword } from '../../../rules/directories/update.ts';
import type { RuleContext } from '../../../rules/directories/target.ts';
import type { DirectoryQueries } from '../../../rules/directories/view.ts';
import { type Endpoint, requireAdmin } from '../access.ts';
import { fullDirectory } from '../directory-json.ts';
import { CREATED } from '../openapi/examples.ts';
import { ownTarget } from '../own-directory.ts';
import { dataResponse, SECRET } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { CreatedDirectory, data } from '../schemas.ts';
import { passwordUnused, warning } from '../../web/warnings.ts';

export function passwordRoutes(directories: DirectoryQueries, rules: RuleContext): Route[] {
  const renew: Endpoint<'/:id'> = async (c, principal) => {
    const answer = ({ directory, password }: Renewed): Response =>
      dataResponse(fullDirectory(directory, password), 200, {
        // The only response with this password.
        ...SECRET,
        ...warning(passwordUnused(directory)),
      });
    const target = await ownTarget(directories, c, principal, answer);
    requireAdmin(principal);
    return answer(await renewPassword(rules, target));
  };

  return [
    route('POST', '/api/v1/directories/:id/password', renew, {
      id: 'renewPassword',
      tag: 'Access',
      summary: 'Replace the password',
      description:
        'The new password is shown only in this response, which has the same form as the response to a create. Use this if that response was lost. ' +
        'From the next login on, only the new password works. Live sessions continue. ' +
        'While `auth_mode` is `public_key`, no password works: the new one is stored for when the mode changes, and a `Warning` header says so.',
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
