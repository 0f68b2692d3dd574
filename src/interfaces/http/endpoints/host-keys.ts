/** GET /api/v1/host_keys: the keys by which a client recognizes this server before it sends a password. */
import type { AppContext } from '../../web/context.ts';
import * as v from 'valibot';
import type { Endpoint } from '../access.ts';
import { dataResponse } from '../../web/responses.ts';
import { type Route, route } from '../route.ts';
import { data, HostKey } from '../schemas.ts';

const EXAMPLE = {
  type: 'ssh-ed25519',
  fingerprint: 'SHA256:VzDG2xd/cWYkA98qGaqGQ3euXQ3YyCqENS0GSXEulrE',
  known_hosts:
    '[sftp.example.com]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAaDNrOq1pLOaZadnxTWp5XDLt/9ogLqCnXJNh2DulMM',
  sshfp: [
    'sftp.example.com. IN SSHFP 4 1 4d767d2c6593db5a90fd7724259045a2c1af822d',
    'sftp.example.com. IN SSHFP 4 2 5730c6db177f71662403df2a19aa864377ae5d0dd8c82a84352d0649712e96b1',
  ],
};

export function hostKeyRoutes({ hostKeys }: AppContext): Route[] {
  const list: Endpoint = async () => {
    const { inUse, next } = await hostKeys();
    return dataResponse(JSON.stringify([...inUse, ...next]));
  };
  return [
    route('GET', '/api/v1/host_keys', list, {
      id: 'listHostKeys',
      isNarrowed: true,
      tag: 'Service',
      summary: "List the SFTP server's host keys",
      description:
        'Give customers `known_hosts` or `fingerprint` together with their password, so that they recognize the server at ' +
        'their first login. During a key rotation, the list has two keys of the same type, the one in use ' +
        'first. Clients should trust both. `sshfp` is empty if the host is an IP address.',
      answer: {
        status: 200,
        description: 'The keys',
        schema: data(v.array(HostKey)),
        example: { data: [EXAMPLE] },
      },
      refusals: [],
    }),
  ];
}
