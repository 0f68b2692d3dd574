/** Short texts for rows of the audit, in commands and on the dashboard. */
import type { AuditTable } from '../../foundation/db/schema.ts';

/** The changed fields by name, with their values before and after if those may be shown. */
export type Changes = Record<string, { readonly from?: unknown; readonly to?: unknown }>;

/** The changes in a row. */
export function changesOf({ changes }: Pick<AuditTable, 'changes'>): Changes {
  return JSON.parse(changes) as Changes;
}

export function changesInWords(changes: Changes): string {
  const fields = Object.entries(changes).map(([field, { from, to }]) => {
    if (to === undefined) return field;
    // This names the object of the change, and did not change itself.
    if (from === to) return `${field} ${JSON.stringify(to)}`;
    return `${field}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`;
  });
  return fields.join(', ');
}

export const ACTIONS: Readonly<Record<AuditTable['action'], string>> = {
  create: 'directory created',
  'undo-create': 'directory removed again (it could not be completed)',
  update: 'changed',
  delete: 'directory deleted',
  'put-file': 'file added',
  'remove-file': 'file removed',
  replay: 'webhooks replayed',
  announce: 'file announced again',
  'announce-partial': 'partial file announced',
  'release-file': 'file released from the check',
  'create-link': 'link created',
  'revoke-link': 'link revoked',
  test: 'test webhook sent',
  'show-secret': 'webhook secret viewed',
  'create-key': 'API key created',
  'revoke-key': 'API key revoked',
  'create-user': 'user created',
  'update-user': 'user changed',
  'remove-user': 'user removed',
  'update-account': 'account changed',
  erase: 'history erased',
};

/** The actor: an operator, a user, or a key by its name. A key that is gone is shown by its id. */
export function actorInWords({ key_id, key_name }: { key_id: string; key_name: string | null }): string {
  const [, kind, name] = /^(operator|user):(.*)$/.exec(key_id) ?? [];
  return kind === undefined ? `key ${key_name ?? key_id}` : `${kind} ${name}`;
}
