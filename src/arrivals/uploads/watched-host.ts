/** This machine's host, which also reports each directory that comes or goes to the watcher. */
import type { DirectoryHost } from '../../rules/directories/host.ts';
import type { Uploads } from './start.ts';

export function watched(host: DirectoryHost, uploads: Pick<Uploads, 'watch' | 'unwatch'>): DirectoryHost {
  return {
    ...host,
    async apply(directory) {
      await host.apply(directory);
      uploads.watch(directory);
    },
    async remove(directory) {
      uploads.unwatch(directory);
      await host.remove(directory);
    },
  };
}
