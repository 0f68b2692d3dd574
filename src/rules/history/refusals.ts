/**
 * A request that sshd has refused. The history keeps what is known about it as JSON, in the column `reason`; this puts it into words,
 * and says what to do.
 */

export interface Refusal {
  /** What the client wanted to do, and what with: a named request if nothing is known but its name. */
  readonly wish: 'write' | 'read' | 'list' | 'create' | 'delete' | 'rename' | 'change' | 'request';
  /** sshd's answer. */
  readonly status: string;
  readonly why?: Why | undefined;
}

/** Where the obstacle is: at the path itself, at its folder, or at a folder above that. */
export type Where = 'itself' | 'folder' | 'above';

/** Why sshd refused a request, as far as the disk shows it. */
export type Why =
  | { readonly code: 'outside' | 'no-folder' | 'no-quota' | 'no-space' | 'long-name' | 'is-folder' }
  | { readonly code: 'owner'; readonly where: Where; readonly uid: number }
  | { readonly code: 'mode'; readonly where: Where; readonly mode: string }
  | { readonly code: 'forbidden'; readonly request: string }
  | { readonly code: 'error'; readonly text: string };

/** The longest name of a file, in bytes. */
export const LONGEST_NAME = 255;

/** Undefined for text that an earlier version wrote. */
export function refusalIn(reason: string | null): Refusal | undefined {
  return reason?.startsWith('{') ? (JSON.parse(reason) as Refusal) : undefined;
}

const WHERE: Readonly<Record<Where, string>> = { itself: 'it', folder: 'its folder', above: 'a folder above it' };

/** sshd's answer and the reason. */
export function refusalInWords({ status, why }: Refusal): string {
  return why === undefined ? status : `${status} (${whyInWords(why)})`;
}

function whyInWords(why: Why): string {
  switch (why.code) {
    case 'outside':
      return 'only what is in /files can be changed';
    case 'no-folder':
      return 'its folder does not exist';
    case 'no-quota':
      return 'the quota is used up';
    case 'no-space':
      return 'the disk is full';
    case 'long-name':
      return `a name has over ${LONGEST_NAME} bytes`;
    case 'is-folder':
      return 'a folder has this name';
    case 'owner':
      return `${WHERE[why.where]} belongs to ${why.uid === 0 ? 'root' : `UID ${why.uid}`}`;
    case 'mode':
      return `${WHERE[why.where]} has the mode ${why.mode}`;
    case 'forbidden':
      return `${why.request} is not allowed`;
    case 'error':
      return why.text;
  }
}

const REMEDIES: Readonly<Partial<Record<Why['code'], string>>> = {
  outside:
    'Set the client’s remote folder to /files. WinSCP: Advanced, Directories, Remote directory. FileZilla: Site Manager, Advanced, Default remote directory. OpenSSH: sftp USER@HOST:/files, or a name without a slash at its start.',
  'no-folder': 'Create the folder first, or correct its name: A and a are different letters.',
  owner: 'Somebody put it there on the machine. Give it the owner of the folder files/ with chown.',
  mode: 'The customer’s client can change it, for example to 700 for a folder and 600 for a file.',
  'no-quota': 'Remove files, or raise the quota.',
  'no-space': 'Make room on the machine’s disk.',
  'long-name': 'Use shorter names. Outside of ASCII, a character takes two to four bytes.',
  'is-folder': 'Use another name, or give the name of a file in that folder.',
};

/** What to do about it, if anything can be done. */
export function remedyOf({ why }: Refusal): string | undefined {
  if (why?.code === 'forbidden') return why.request.endsWith('link') ? 'Upload the file itself.' : undefined;
  return why && REMEDIES[why.code];
}
