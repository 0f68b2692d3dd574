/** The options of `create` and `set` that are fields of the API, and how to print a directory. */
import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseJson } from '../../rules/directories/json-text.ts';
import { errorMessage, OperatorError } from '../../foundation/base/errors.ts';
import { type Cell, columns, shellWord, urlHost } from '../../foundation/base/text.ts';
import { integer } from '../options.ts';

export interface FieldOptions {
  readonly description?: string;
  readonly externalId?: string;
  readonly metadata?: unknown;
  readonly maxConnections?: number;
}

/** A directory in the API's answer. */
export interface DirectoryAnswer {
  readonly id: string;
  readonly sftp_host: string;
  readonly sftp_port: number;
  readonly sftp_username: string;
  readonly sftp_password?: string | undefined;
  readonly auth_mode: string;
  readonly webhook_url: string | null;
  readonly webhook_secret: string;
  readonly [field: string]: unknown;
}

export function withFields(command: Command): Command {
  return command
    .option('--description <text>', 'its purpose, for people')
    .option('--external-id <id>', 'its id in your own systems')
    .option('--metadata <json>', 'a JSON object that the API returns as it is', (text): unknown => {
      try {
        return parseJson(text);
      } catch {
        throw new InvalidArgumentError('It must be a JSON object.');
      }
    })
    .option('--max-connections <count>', 'how many SFTP connections are allowed at the same time', integer(1, 1000));
}

/** The given fields, by the API's names. An empty text clears the field. */
export function fieldsOf({ description, externalId, metadata, maxConnections }: FieldOptions): Record<string, unknown> {
  const cleared = (text: string | undefined): string | null | undefined => (text === '' ? null : text);
  const fields = {
    description: cleared(description),
    external_id: cleared(externalId),
    metadata,
    max_connections: maxConnections,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

export function authModeOption(): Option {
  return new Option('--auth-mode <mode>', 'how its user logs in').choices(['password', 'public_key', 'both']);
}

/** @throws {OperatorError} when the file cannot be read. `-` is standard input. */
export function readKey(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8').trim();
  } catch (error) {
    throw new OperatorError(`the public key cannot be read: ${errorMessage(error)}`, { cause: error });
  }
}

/** The command by which its user logs in. */
export function sftpCommand({ sftp_host, sftp_port, sftp_username }: DirectoryAnswer): string {
  return `sftp -P ${sftp_port} ${shellWord(`${sftp_username}@${urlHost(sftp_host)}`)}`;
}

/** All fields of a directory except its secrets. */
export function summaryOf(directory: DirectoryAnswer): string[] {
  const fields = Object.entries(directory).filter(([name]) => name !== 'webhook_secret');
  return table({ ...Object.fromEntries(fields), connect: sftpCommand(directory) });
}

/** Prints one field per line. */
export function table(fields: Readonly<Record<string, unknown>>): string[] {
  return columns()(Object.entries(fields).map(([name, value]) => [name, cellOf(value)]));
}

function cellOf(value: unknown): Cell {
  if (value === null || value === undefined || typeof value === 'string' || typeof value === 'number')
    return value ?? null;
  return JSON.stringify(value);
}
