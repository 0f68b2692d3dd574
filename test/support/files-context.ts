/** What code uses that reads or changes files, as without sessions: nobody writes a file, and no removal waits for a client. */
import type { FilesContext } from '../../src/arrivals/files/context.ts';
import { createTransit } from '../../src/arrivals/files/transit.ts';
import { FileSyncer } from '../../src/arrivals/uploads/disk/file-syncer.ts';
import { jailFiles } from '../../src/arrivals/uploads/file-path.ts';
import type { Ground } from '../../src/foundation/context.ts';
import { pathsOf } from '../../src/machine/sftp/paths.ts';

/** @param others what a test replaces. */
export function filesContext(ground: Ground, others: Partial<FilesContext> = {}): FilesContext {
  const { config, database } = ground;
  return {
    ...ground,
    filesRoot: jailFiles(config.jailDir),
    syncer: new FileSyncer({ isOn: true }),
    transit: createTransit(pathsOf(config).transit),
    transact: async (work) => (await database.db.transaction().execute(work)).value,
    isJailDiskThere: () => true,
    through: (_id, work) => work(),
    quarantined: async () => false,
    caughtUp: async () => undefined,
    isHeld: async () => false,
    isHeldNow: () => false,
    sessionsOf: () => [],
    missing: () => undefined,
    touch: () => undefined,
    recorded: () => undefined,
    deferral: {
      mayBeAskedFor: async () => false,
      added: () => undefined,
      endOf: async () => undefined,
      endAt: async () => undefined,
    },
    ...others,
  };
}
