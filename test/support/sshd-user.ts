/** An sshd of the test's own with one SFTP user, made through the host alone, and what its client logs in with. */
import type { Scratch } from './scratch.ts';
import { startSshd } from './sshd.ts';
import { directory, hostOf, PASSWORD } from './sftp-user.ts';

export async function sshdWithUser(place: Scratch) {
  await using parts = new AsyncDisposableStack();
  const sshd = parts.use(await startSshd(place));
  const host = parts.use(hostOf(sshd.paths));
  const row = directory();
  await host.apply(row);
  const owned = parts.move();
  const login = { port: sshd.port, username: row.sftp_username, password: PASSWORD };
  return { sshd, host, row, login, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
