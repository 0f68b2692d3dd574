/** A checker says whether a file may be announced. */
import type { CheckBy } from '../config.ts';
import { clamdChecker } from './clamd.ts';
import { execChecker } from './exec.ts';

export interface CheckedFile {
  readonly directoryId: string;
  readonly username: string;
  /** Below the directory, as bytes. */
  readonly path: Buffer;
  readonly size: number;
  /** The bytes, once. What it throws, `check` throws. */
  readonly content: AsyncIterable<Buffer>;
}

export type Verdict = { readonly isPassed: true } | { readonly isPassed: false; readonly reason: string };

export interface Checker {
  /**
   * @param seconds how long it may take
   * @throws {CheckerAway} when there is no checker, {CheckFailed} when this file could not be checked.
   */
  check(file: CheckedFile, seconds: number, signal: AbortSignal): Promise<Verdict>;
  /** Resolves with how the checker calls itself. Throws as `check`. */
  hello(seconds: number): Promise<string>;
}

export function checkerOf(by: CheckBy): Checker {
  return by.kind === 'clamd' ? clamdChecker(by.place) : execChecker(by.socket);
}
