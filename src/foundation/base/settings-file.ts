/** The file with the settings of an installed berth, as systemd reads it (systemd.exec(5), EnvironmentFile): lines NAME=VALUE. */
import { readFileSync } from 'node:fs';
import { errorCode } from './errors.ts';

export const SETTINGS = '/etc/berth/berth.env';

const ASSIGNMENT = /^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/;

/** The settings in the text of such a file. If a name has several lines, the last one counts. Quotes around a value are removed. */
export function settingsIn(text: string): Map<string, string> {
  const found = text.split('\n').flatMap((line) => {
    const [, name, value = ''] = ASSIGNMENT.exec(line) ?? [];
    return name === undefined ? [] : [[name, value.replace(/^(["'])(.*)\1$/, '$2')] as const];
  });
  return new Map(found);
}

/** What systemd ignores without a message that anybody sees: a text for each such line of the file; none when there is no file. */
export function ignoredLines(file: string = SETTINGS): string[] {
  const lines = textOf(file).split('\n');
  return lines.flatMap((line, index) => {
    const isRead = /^\s*([#;]|$)/.test(line) || ASSIGNMENT.test(line) || lines[index - 1]?.endsWith('\\');
    if (isRead) return [];
    const [, name] = /^\s*export\s+(\w+)=/.exec(line) ?? [];
    const why = name === undefined ? 'it is not NAME=VALUE' : `write ${name}=… without "export"`;
    return [`line ${index + 1} of ${file} has no effect: ${why}`];
  });
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return '';
    throw error;
  }
}
