/** Metrics of the machine, read at each scrape: sshd, free space, the certificate. */
import { X509Certificate } from 'node:crypto';
import { readFile, statfs } from 'node:fs/promises';
import { type Micros, SECOND } from '../../foundation/base/clock.ts';
import { type Registry, scraped } from './registry.ts';

export interface MachineSources {
  /** Whether our sshd listens on its port. */
  readonly isSshdUp: () => boolean;
  /** When the last backup was made; undefined for never. */
  readonly lastBackup: () => Micros | undefined;
  readonly isJailDiskThere: () => boolean;
  readonly folders: { readonly jails: string; readonly state: string };
  /** The certificate in use; undefined behind a proxy. */
  readonly certificate: string | undefined;
  /** Whether the configured files hold a certificate that cannot be used. */
  readonly isCertificateRefused: () => boolean;
}

export function machineMetrics(
  registry: Registry,
  { isSshdUp, lastBackup, isJailDiskThere, folders, certificate, isCertificateRefused }: MachineSources,
): void {
  const sshd = { name: 'berth_sshd_up', help: '1 while our sshd listens on the SFTP port.' };
  scraped(registry, 'gauge', sshd, async () => Number(isSshdUp()));

  const disk = { name: 'berth_jails_disk_up', help: '1 while the disk of the jails is mounted.' };
  scraped(registry, 'gauge', disk, async () => Number(isJailDiskThere()));

  const backup = {
    name: 'berth_backup_timestamp_seconds',
    help: 'When the last backup was made here, in seconds since 1970; 0 for never.',
  };
  scraped(registry, 'gauge', backup, async () => (lastBackup() ?? 0) / SECOND);

  const perFolder = (read: (folder: string) => Promise<number>) => async () => ({
    jails: await read(folders.jails),
    state: await read(folders.state),
  });
  const bytes = {
    name: 'berth_disk_free_bytes',
    help: 'Free space on the disks of the files and of the state.',
    label: 'folder',
  };
  scraped(
    registry,
    'gauge',
    bytes,
    perFolder(async (folder) => {
      const { bavail, bsize } = await statfs(folder);
      return bavail * bsize;
    }),
  );
  const share = {
    name: 'berth_disk_free_ratio',
    help: 'Free share of their space or of their inodes, whichever is less.',
    label: 'folder',
  };
  scraped(
    registry,
    'gauge',
    share,
    perFolder(async (folder) => {
      const { bavail, blocks, ffree, files } = await statfs(folder);
      // Some file systems have no fixed number of inodes, and report 0.
      return Math.min(bavail / blocks, files === 0 ? 1 : ffree / files);
    }),
  );

  if (certificate === undefined) return;
  const refused = {
    name: 'berth_certificate_refused',
    help: '1 while the configured certificate cannot be used, and an older one is in use.',
  };
  scraped(registry, 'gauge', refused, async () => Number(isCertificateRefused()));
  const expiry = {
    name: 'berth_certificate_expiry_timestamp_seconds',
    help: "When the API's certificate expires, in seconds since 1970; 0 without one.",
  };
  scraped(registry, 'gauge', expiry, async () => {
    const pem = await readFile(certificate).catch(() => undefined);
    return pem ? new X509Certificate(pem).validToDate.getTime() / 1000 : 0;
  });
}
