/** The text for a row of the audit, for the commands and the dashboard. */
import type { AuditTable } from '../db/schema.ts';

/** For each changed field its name, with what it was and became where that may be shown. */
export type Changes = Record<string, { readonly from?: unknown; readonly to?: unknown }>;

/** The changes in a row. */
export function changesOf({ changes }: Pick<AuditTable, 'changes'>): Changes {
  return JSON.parse(changes) as Changes;
}

export function changesInWords(changes: Changes): string {
  const fields = Object.entries(changes).map(([field, { from, to }]) => {
    if (to === undefined) return field;
    // The subject of the change, not a change of it.
    if (from === to) return `${field} ${JSON.stringify(to)}`;
    return `${field}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`;
  });
  return fields.join(', ');
}

export const ACTIONS: Readonly<Record<AuditTable['action'], string>> = {
  create: 'directory created',
  'undo-create': 'directory taken back (it could not be made whole)',
  update: 'changed',
  delete: 'directory deleted',
  'put-file': 'file put',
  'remove-file': 'file removed',
  replay: 'webhooks replayed',
  announce: 'file announced again',
  'announce-partial': 'partial file announced',
  'release-file': 'file released from the check',
  'create-link': 'link created',
  test: 'webhook tried',
  'show-secret': 'webhook secret looked at',
  'create-key': 'API key created',
  'revoke-key': 'API key revoked',
  'create-user': 'user created',
  'update-user': 'user changed',
  'remove-user': 'user removed',
  'update-account': 'account changed',
  erase: 'history erased',
};

/** The actor: a key by its name, if it still has one, an operator or a user. */
export function actorInWords({ key_id, key_name }: { key_id: string; key_name: string | null }): string {
  const [, kind, name] = /^(operator|user):(.*)$/.exec(key_id) ?? [];
  return kind === undefined ? `key ${key_name ?? key_id}` : `${kind} ${name}`;
}
