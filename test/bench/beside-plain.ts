/** The berths that are measured, each with a directory that a key opens, beside a plain sshd with the same key. */
import { readFileSync } from 'node:fs';
import { type Login, sftp } from '../support/openssh-client.ts';
import { type Scratch, scratch } from '../support/scratch.ts';
import { type Berth, startBerths, type Tree } from './berths.ts';
import { type Figure, figure, inTurns, median, ofTree, short } from './harness.ts';
import { benchKey, startPlainSshd } from './plain-sshd.ts';

export interface Side {
  readonly login: Login & { readonly keyFile: string };
  /** The text of the private key. */
  readonly privateKey: string;
  /** Where its files lie on this machine. */
  readonly files: string;
}

export interface Sides extends AsyncDisposable {
  /** The plain one is the last. */
  readonly all: readonly Side[];
  readonly place: Scratch;
}

export async function besidePlain(trees: readonly Tree[]): Promise<Sides> {
  await using parts = new AsyncDisposableStack();
  const place = parts.use(scratch());
  const key = benchKey(place.dir);
  const privateKey = readFileSync(key.file, 'utf8');
  const plain = parts.use(await startPlainSshd(parts.use(scratch()), key.publicKey));
  const berths = parts.use(await startBerths(trees));
  const sides = await Promise.all(
    berths.all.map(async ({ config, directory }: Berth) => {
      const { sftp_username: username } = await directory({ auth_mode: 'both', public_key: key.publicKey });
      const login = { port: config.sftp.port, username, keyFile: key.file };
      return { login, privateKey, files: `${config.jailDir}/${username}/files` };
    }),
  );
  const login = { port: plain.port, username: plain.username, keyFile: key.file };
  const owned = parts.move();
  return {
    all: [...sides, { login, privateKey, files: plain.files }],
    place,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Runs OpenSSH's sftp with the key. */
export async function runSftp({ place }: Sides, { login }: Side, commands: readonly string[]): Promise<void> {
  const { code, output } = await sftp(place.dir, login, commands);
  if (code !== 0) throw new Error(`sftp failed: ${output}`);
}

/** The rate of each berth over that of the plain sshd in the same round. */
export async function rateFigures(
  what: string,
  unit: 'MB/s' | '/s',
  least: number,
  trees: readonly Tree[],
  sides: readonly Side[],
  rounds: number,
  rate: (side: Side) => Promise<number>,
): Promise<Figure[]> {
  const rates = await inTurns(rounds, sides, rate);
  const plain = rates.at(-1) ?? [];
  return trees.map((tree, index) => {
    const own = rates[index] ?? [];
    const ratios = own.map((value, round) => value / (plain[round] ?? Number.NaN));
    const detail = `${short(median(own))} of ${short(median(plain))} ${unit}`;
    return ofTree(figure(what, '×', { least }, ratios, detail), tree, trees);
  });
}
