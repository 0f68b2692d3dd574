/** A host that notes what it is asked to do, for tests of the API: those of `test/sshd` show that the real one does it. */
import { isDeepStrictEqual } from 'node:util';
import { type DirectoryHost, HOSTED, type HostedDirectory } from '../../src/rules/directories/host.ts';

export interface RecordingHost extends DirectoryHost {
  /** `apply <username> <mode> <key or -> <max>` and `block logins of <username>` and `remove <username>`, in order. */
  readonly calls: string[];
  /** Directories that it serves, by username. */
  readonly served: Map<string, HostedDirectory>;
  /** Why no quota can be set. */
  obstacle: string | undefined;
  /** Makes the next calls fail; undefined makes them work again. */
  fail(error: Error | undefined): void;
  /** Makes it as it was at first. */
  forget(): void;
}

export function recordingHost(): RecordingHost {
  let failure: Error | undefined;
  const calls: string[] = [];
  const served = new Map<string, HostedDirectory>();
  return {
    calls,
    served,
    obstacle: undefined,
    async quotaObstacle() {
      return this.obstacle;
    },
    fail(error) {
      failure = error;
    },
    forget() {
      failure = this.obstacle = undefined;
      calls.length = 0;
      served.clear();
    },
    async apply(directory) {
      const { sftp_username, auth_mode, public_key, max_connections } = directory;
      calls.push(`apply ${sftp_username} ${auth_mode} ${public_key ?? '-'} ${max_connections}`);
      if (failure) throw failure;
      served.set(sftp_username, directory);
    },
    isApplied(directory) {
      const known = served.get(directory.sftp_username);
      return known !== undefined && HOSTED.every((column) => isDeepStrictEqual(known[column], directory[column]));
    },
    endSessions: async ({ sftp_username }) => void calls.push(`end sessions ${sftp_username}`),
    blockLogins: async ({ sftp_username }) => void calls.push(`block logins of ${sftp_username}`),
    makeDurable: async () => undefined,
    async remove({ sftp_username }) {
      calls.push(`remove ${sftp_username}`);
      served.delete(sftp_username);
    },
  };
}

/** A system error as Node throws it. */
export function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: as if`), { code });
}
