/** Berth's sshd with berth at work, and the plain one, side by side, with one key for both. */
import { readFileSync } from 'node:fs';
import { type Login, sftp } from '../support/openssh-client.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { benchKey, startPlainSshd } from './plain-sshd.ts';
import { type Served, serveBerth } from './served.ts';

export interface Side {
  readonly login: Login & { readonly keyFile: string; readonly password: string };
  /** The text of the private key. */
  readonly privateKey: string;
  /** Where its files lie on this machine. */
  readonly files: string;
}

export interface BothSshds extends AsyncDisposable {
  readonly berth: Served;
  readonly ours: Side;
  readonly theirs: Side;
  readonly place: Scratch;
  /** Runs OpenSSH's sftp with the key. Throws when it fails. Gives the seconds it took. */
  timed(side: Side, commands: readonly string[]): Promise<number>;
}

export async function bothSshds(): Promise<BothSshds> {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const plainPlace = parts.use(scratch());
  const key = benchKey(place.dir);
  const privateKey = readFileSync(key.file, 'utf8');
  const plain = parts.use(await startPlainSshd(plainPlace, key.publicKey));
  const berth = parts.use(await serveBerth(place, { sftp: true }));
  const directory = await berth.directory();
  const json = { directory: { auth_mode: 'both', public_key: key.publicKey } };
  const set = await berth.api.send('PATCH', `/directories/${directory.id}`, { json });
  if (set.status !== 200) throw new Error(`the key was refused: ${set.text}`);
  const { port } = berth.config.sftp;
  const login = { port, username: directory.sftp_username, password: directory.sftp_password, keyFile: key.file };
  const owned = parts.move();
  return {
    berth,
    place,
    ours: { login, privateKey, files: `${berth.config.jailDir}/${directory.sftp_username}/files` },
    theirs: {
      login: { port: plain.port, username: plain.username, password: plain.password, keyFile: key.file },
      privateKey,
      files: plain.files,
    },
    async timed({ login: { port: target, username, keyFile } }, commands) {
      const began = performance.now();
      const { code, output } = await sftp(place.dir, { port: target, username, keyFile }, commands);
      if (code !== 0) throw new Error(`sftp failed: ${output}`);
      return (performance.now() - began) / 1000;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
