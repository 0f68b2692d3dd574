/** What to do about the requests that sshd has refused, by the reasons in the history (`arrivals/uploads/log/refused-requests.ts`). */
import type { Happening } from './timeline.ts';

const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /only what is in \/files can be changed$/,
    'Set the client’s remote folder to /files. WinSCP: Advanced, Directories, Remote directory. FileZilla: Site Manager, Advanced, Default remote directory. OpenSSH: sftp USER@HOST:/files, or a name without a slash at its start.',
  ],
  [/its folder does not exist$/, 'Create the folder first, or correct its name: A and a are different letters.'],
  [
    /belongs to (?:root|UID \d+)$/,
    'Somebody put it there on the machine. Give it the owner of the folder files/ with chown.',
  ],
  [/has the mode 0\d+$/, 'The customer’s client can change it, for example to 700 for a folder and 600 for a file.'],
  [/the quota is used up$/, 'Remove files, or raise the quota.'],
  [/the disk is full$/, 'Make room on the machine’s disk.'],
  [/a name has over \d+ bytes$/, 'Use shorter names. Outside of ASCII, a character takes two to four bytes.'],
  [/a folder has this name$/, 'Use another name, or give the name of a file in that folder.'],
  [/links are not allowed$/, 'Upload the file itself.'],
];

/** A note for each remedy, with the newest request that needs it. `happenings` are oldest first. */
export function refusedRequestNotes(happenings: readonly Happening[]): string[] {
  const newest = new Map<string, string>();
  for (const { kind, text } of happenings.toReversed()) {
    if (kind !== 'file' || !text.startsWith('refused')) continue;
    const remedy = REMEDIES.find(([reason]) => reason.test(text))?.[1];
    if (remedy !== undefined && !newest.has(remedy)) newest.set(remedy, `${text}. ${remedy}`);
  }
  return [...newest.values()];
}
