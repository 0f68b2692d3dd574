/** The errors that the rules throw, in the domain's terms. Only `web/responses.ts` knows the status and body for each. */
import { constants } from 'node:os';
import type { FieldProblem } from './problems.ts';

export type ErrorCode =
  | 'unauthenticated'
  | 'rate_limited'
  | 'plan_required'
  | 'not_authorized'
  | 'directory_not_found'
  | 'public_key_not_found'
  | 'api_key_not_found'
  | 'in_flight'
  | 'upload_not_found'
  | 'delivery_not_found'
  | 'events_gone'
  | 'file_not_found'
  | 'precondition_failed'
  | 'file_changed'
  | 'file_in_use'
  | 'file_conflict'
  | 'quota_unavailable'
  | 'partial_put'
  | 'directory_limit'
  | 'user_not_found'
  | 'last_admin'
  | 'malformed_json'
  | 'incomplete_body'
  | 'body_too_large'
  | 'unsupported_media_type'
  | 'storage_full'
  | 'home_unavailable'
  | 'home_elsewhere'
  | 'link_not_found'
  | 'link_invalid'
  | 'link_ended';

/** A refusal with one reason. Callers may read `message`. */
export class BerthError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BerthError';
    this.code = code;
  }
}

/** What is wrong with each field, by its name: `{ name: [['blank']] }`. */
export type FieldErrors = Readonly<Record<string, readonly FieldProblem[]>>;

/** The request's fields break the rules (specification, "Errors": 422 with `errors`). */
export class ValidationError extends Error {
  readonly fields: FieldErrors;

  constructor(fields: FieldErrors) {
    super(`invalid: ${Object.keys(fields).join(', ')}`);
    this.name = 'ValidationError';
    this.fields = fields;
  }
}

/** The request's only problem: `wrongField('email', 'taken')`. */
export function wrongField(field: string, ...problem: FieldProblem): ValidationError {
  return new ValidationError({ [field]: [problem] });
}

/** A problem that the operator has to fix. `message` is one line that says what is wrong and what to do; no stack is shown. */
export class OperatorError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OperatorError';
  }
}

/** The `code` of a Node system error (`ENOENT`, `SQLITE_FULL`), or undefined. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Whether this process or the machine has no file descriptor left. */
export function isOutOfDescriptors(error: unknown): boolean {
  const code = errorCode(error);
  return code === 'EMFILE' || code === 'ENFILE';
}

/** Asks the kernel. Returns undefined when there is no descriptor left to ask with. */
export function askKernel<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch (error) {
    if (isOutOfDescriptors(error)) return undefined;
    throw error;
  }
}

/** ENOSPC also means that no inodes are left, and EDQUOT that a quota of the file system is used up. */
const FULL = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL']);

/** EDQUOT has no name in libuv, so Node's code is "Unknown system error -122". */
const OVER_QUOTA = -constants.errno.EDQUOT;

/** Whether there is no room on the disk, whether the file system reports it or SQLite. */
export function isFull(error: unknown): boolean {
  return FULL.has(errorCode(error) ?? '') || (error instanceof Error && 'errno' in error && error.errno === OVER_QUOTA);
}

/** A full disk as the refusal `storage_full`; any other error unchanged. */
export function fullAsRefusal(error: unknown): unknown {
  return isFull(error) ? new BerthError('storage_full', 'Not enough storage space', { cause: error }) : error;
}

/** The text of any thrown value, for a log line or a stored reason. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether the database is unavailable: PostgreSQL does not answer, or another process holds the SQLite file. */
export function isUnavailable(error: unknown): boolean {
  const code = errorCode(error);
  return code === 'DATABASE_AWAY' || code === 'SQLITE_BUSY';
}
