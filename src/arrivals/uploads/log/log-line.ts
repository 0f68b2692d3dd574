/**
 * Reads one message of internal-sftp's log (sftp-server.c) into an event.
 *
 * Names are hostile: they may hold quotes and imitate the end of a line. The wording at both ends of a message is
 * sshd's own, so it is parsed from both ends, and what stays ambiguous becomes `unclear` rather than a guess.
 * syslog(3) gets at most 500 characters; a message that long may be cut, and is `unclear` too.
 */
/** The beginning of a mark that berth sends itself. No message of syslog(3) begins like this. */
export const MARK = 'berth ';

/** The length at which sshd cuts a message (`"%.500s"` in log.c). */
const CUT = 500;

/** The request of a line whose name is uncertain. */
export type Unclear = 'open' | 'close' | 'forced close' | 'set' | 'rename' | 'remove';

/** The events of internal-sftp's log. Names are strings with one character per byte. */
export type LogEvent =
  | { readonly kind: 'session-opened'; readonly username: string; readonly address: string }
  | { readonly kind: 'session-closed' }
  | { readonly kind: 'open'; readonly name: string; readonly flags: readonly string[] }
  | {
      readonly kind: 'close';
      readonly name: string;
      readonly forced: boolean;
      readonly read: number;
      readonly written: number;
    }
  /** `replaces`: whether it replaces a file at `to` (posix-rename@openssh.com). A plain rename is refused then. */
  | { readonly kind: 'rename'; readonly from: string; readonly to: string; readonly replaces: boolean }
  | { readonly kind: 'remove'; readonly name: string }
  | { readonly kind: 'make-folder' | 'remove-folder'; readonly name: string }
  /** `size` is in bytes; undefined when times were set. */
  | { readonly kind: 'set'; readonly name: string; readonly size: number | undefined }
  /** A request was refused. */
  | { readonly kind: 'status'; readonly text: string }
  /**
   * A request whose name is uncertain. For a close, `start` is the beginning of the name. It may include part of the
   * wording that follows the name, from a `"` on.
   */
  | { readonly kind: 'unclear'; readonly about: Unclear; readonly start: string }
  /**
   * A write was refused; the status follows. `name` is the first 100 bytes of the name that the handle was opened with.
   */
  | { readonly kind: 'write-refused'; readonly name: string }
  /** sshd's explanation of why another request fails; the status follows. */
  | { readonly kind: 'complaint' }
  /** Nothing that matters to uploads: opendir, statvfs, … */
  | { readonly kind: 'other' };

export type LogEventOf<K extends LogEvent['kind']> = LogEvent & { kind: K };

/** `<38>Nov 20 20:50:00 internal-sftp[123]: text`, as glibc's syslog(3) writes it. */
const FRAME = /^<\d+>\w{3} [ \d]\d \d\d:\d\d:\d\d internal-sftp\[(\d+)\]: /;

/** The process and the text of a syslog message, or undefined when internal-sftp did not write it. */
export function readFrame(raw: string): { readonly pid: number; readonly text: string } | undefined {
  const frame = FRAME.exec(raw);
  return frame ? { pid: Number(frame[1]), text: raw.slice(frame[0].length) } : undefined;
}

/** The event that a message's text describes. */
export function readEvent(text: string): LogEvent {
  if (text.length >= CUT) return unclear(text);
  let match: RegExpExecArray | null;
  if ((match = /^open "(.*)" flags ([A-Z,]*) mode 0[0-7]*$/.exec(text))) {
    return { kind: 'open', name: unvis(match[1] ?? ''), flags: (match[2] ?? '').split(',') };
  }
  if ((match = /^(forced )?close "(.*)" bytes read (\d+) written (\d+)$/.exec(text))) {
    return {
      kind: 'close',
      name: unvis(match[2] ?? ''),
      forced: match[1] !== undefined,
      read: Number(match[3]),
      written: Number(match[4]),
    };
  }
  if (/^(posix-)?rename old "/.test(text)) return readRename(text);
  if ((match = /^remove name "(.*)"$/.exec(text))) return { kind: 'remove', name: unvis(match[1] ?? '') };
  if ((match = /^mkdir name "(.*)" mode 0[0-7]*$/.exec(text))) {
    return { kind: 'make-folder', name: unvis(match[1] ?? '') };
  }
  if ((match = /^rmdir name "(.*)"$/.exec(text))) return { kind: 'remove-folder', name: unvis(match[1] ?? '') };
  if ((match = /^set "(.*)" (?:size (\d+)|modtime \d{8}-\d\d:\d\d:\d\d)$/.exec(text))) {
    return { kind: 'set', name: unvis(match[1] ?? ''), size: match[2] === undefined ? undefined : Number(match[2]) };
  }
  if ((match = /^session opened for local user (\S+) from \[(.*)\]$/.exec(text))) {
    return { kind: 'session-opened', username: match[1] ?? '', address: match[2] ?? '' };
  }
  if (text.startsWith('session closed for local user ')) return { kind: 'session-closed' };
  if ((match = /^sent status (.*)$/.exec(text))) return { kind: 'status', text: match[1] ?? '' };
  if ((match = /^error: process_write: (?:write|seek) "(.*)": [^"]*$/.exec(text))) {
    return { kind: 'write-refused', name: unvis(match[1] ?? '') };
  }
  if (text.startsWith('error: ')) return { kind: 'complaint' };
  return { kind: 'other' };
}

/**
 * Both names are quoted, and either may contain `" new "`. The names are certain only when there is one way to split
 * them.
 */
function readRename(text: string): LogEvent {
  const body = /rename old "(.*)"$/.exec(text)?.[1] ?? '';
  const parts = body.split('" new "');
  const [from, to] = parts;
  if (parts.length !== 2 || from === undefined || to === undefined) return unclear(text);
  return { kind: 'rename', from: unvis(from), to: unvis(to), replaces: text.startsWith('posix-') };
}

function unclear(text: string): LogEvent {
  const match = /^(?:posix-)?(open|(?:forced )?close|remove|set|rename)(?: name| old)? "(.*)/.exec(text);
  if (!match) return { kind: 'other' };
  return { kind: 'unclear', about: match[1] as Unclear, start: unvis(match[2] ?? '') };
}

/**
 * The escapes of vis(3) with `VIS_CSTYLE | VIS_NL | VIS_TAB | VIS_OCTAL`, as sshd encodes names (openssh-portable,
 * log.c and openbsd-compat/vis.c): printable ASCII stands for itself, a backslash is doubled, every other byte becomes
 * `\n`, `\t`, … or three octal digits.
 */
const ESCAPES: Record<string, number> = { n: 10, r: 13, b: 8, a: 7, v: 11, t: 9, f: 12, s: 32, '0': 0, '\\': 92 };

/** The bytes that an encoded text stands for, one character each. An escape that is cut off at the end is left out. */
export function unvis(text: string): string {
  if (!text.includes('\\')) return text;
  const bytes = Buffer.allocUnsafe(text.length);
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (char !== 92) {
      bytes[length++] = char;
      continue;
    }
    const octal = /^[0-3][0-7]{2}/.exec(text.slice(i + 1, i + 4));
    if (octal) {
      bytes[length++] = Number.parseInt(octal[0], 8);
      i += 3;
      continue;
    }
    const next = text[i + 1];
    const byte = next === undefined ? undefined : ESCAPES[next];
    // `\0` may be the start of octal digits that were cut off.
    if (byte === undefined || (next === '0' && i + 4 > text.length)) break;
    bytes[length++] = byte;
    i += 1;
  }
  return bytes.toString('latin1', 0, length);
}
