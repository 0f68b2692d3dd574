/** Uses a link on the database of `DATABASE`, and is killed: `dying-link.ts hash|commit TOKEN`. */
import { setClock } from '../support/set-clock.ts';
import { openDatabase } from '../../src/foundation/db/open.ts';
import { createPasswordHashing, createPasswords } from '../../src/rules/users/passwords.ts';
import { setPasswordByLink } from '../../src/rules/users/set-password.ts';
import { PASSWORD } from '../support/users.ts';

const [after, token = ''] = process.argv.slice(2);
const database = await openDatabase(process.env['DATABASE'] ?? '');
const passwords = createPasswords(createPasswordHashing({ ln: 4, r: 8, p: 1 }));
const dies = {
  ...passwords,
  async hash(password: string, email: string) {
    const encoded = await passwords.hash(password, email);
    if (after === 'hash') process.kill(process.pid, 'SIGKILL');
    return encoded;
  },
};
const request = { visit: { address: '192.0.2.1', agent: 'test' }, requestId: 'test', route: 'test' };
await setPasswordByLink({ database, clock: setClock(), passwords: dies }, { token, password: PASSWORD }, request);
process.kill(process.pid, 'SIGKILL');
