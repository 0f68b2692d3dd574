/** A directory behind the API whose folder is there, as the host would have made it. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Api } from '../support/hosted.ts';

export type FilesPlace = Awaited<ReturnType<typeof filesPlace>>;

export async function filesPlace(api: Api) {
  const { id, sftp_username } = await api.directory();
  const { jailDir } = api.place.config;
  const root = join(jailDir, sftp_username, 'files');
  mkdirSync(root, { recursive: true });
  return {
    api,
    id,
    root,
    /** Every name in it. */
    names: () => readdirSync(root, { recursive: true }).map(String),
    inTransit: () => readdirSync(join(jailDir, '.berth', 'transit')),
  };
}
