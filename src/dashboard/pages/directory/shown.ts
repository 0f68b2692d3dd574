/** What every section of a directory's page shows, and what was typed into it before it was refused. */
import type { DirectoriesTable } from '../../../db/schema.ts';
import type { FieldErrors } from '../../../errors.ts';
import type { FormFields } from '../../form.ts';

export interface Shown {
  readonly directory: DirectoriesTable;
  /** Of the page; its forms post to paths below it. */
  readonly path: string;
  /** A member sees what only an admin changes, without the means to. */
  readonly isAdmin: boolean;
  readonly given: FormFields;
  readonly errors: FieldErrors | undefined;
}
