/** Names that clients give to uploads until they rename them: `*.filepart`, `.in.*`, … */
import { baseName, type FilePath } from './file-path.ts';

export type IsTemporary = (path: FilePath) => boolean;

/** Patterns with `*` for anything, as `BERTH_TEMP_NAMES` lists them; they are held against a path's last component. */
export function temporaryNames(patterns: readonly string[]): IsTemporary {
  if (patterns.length === 0) return () => false;
  const alternatives = patterns.map((pattern) =>
    pattern
      .split('*')
      .map((part) => RegExp.escape(part))
      .join('[^]*'),
  );
  const expression = new RegExp(`^(?:${alternatives.join('|')})$`);
  return (path) => expression.test(baseName(path));
}
