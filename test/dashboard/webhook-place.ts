/** A directory with a real receiver in a whole berth with its dashboard, and people who look at its webhook there. */
import { createAccount } from '../../src/rules/accounts/accounts.ts';
import { systemClock } from '../../src/foundation/base/clock.ts';
import { type Database, openDatabase } from '../../src/foundation/db/open.ts';
import type { AttemptsTable, AuditTable, DeliveryRow } from '../../src/foundation/db/schema.ts';
import { deliveryFor } from '../../src/deliveries/webhooks/outbox.ts';
import type { TestBerth, TestDirectory } from '../support/berth.ts';
import { signedIn, type Visitor } from '../support/dashboard.ts';
import { dataOf } from '../support/field-sets.ts';
import type { ReceiverOptions } from '../support/receiver.ts';
import { sharedDashboard } from '../support/shared-berth.ts';

export interface DashboardPlace extends AsyncDisposable {
  readonly berth: TestBerth;
  readonly directory: TestDirectory;
  /** The address of the Webhook page. */
  readonly path: string;
  readonly admin: Visitor;
  readonly member: Visitor;
  /** An admin of another account. */
  readonly stranger: Visitor;
  readonly database: Database;
  /** The directory as the API shows it. */
  settings(): Promise<{ webhook_url: string | null; webhook_secret: string }>;
  setUrl(webhook_url: string | null): Promise<void>;
  /** What the audit has of the dashboard's users, the oldest first. */
  audit(): Promise<Pick<AuditTable, 'action' | 'key_id' | 'route' | 'changes'>[]>;
  /** Writes a delivery, of a file uploaded now unless `changes` say otherwise, with its attempts. */
  addDelivery(
    changes?: Partial<DeliveryRow> & { readonly filename?: string },
    attempts?: readonly Partial<AttemptsTable>[],
  ): Promise<string>;
}

/** Places for the tests of a file, on one berth: each has its own accounts. */
export function dashboardPlaces(): (receiver?: ReceiverOptions) => Promise<DashboardPlace> {
  const shared = sharedDashboard();
  return async (receiver) => dashboardPlace(await shared(receiver));
}

async function dashboardPlace(berth: TestBerth): Promise<DashboardPlace> {
  await using parts = new AsyncDisposableStack();
  parts.use(berth);
  const directory = await berth.directory();
  const database = parts.adopt(await openDatabase(berth.config.database), (open) => open.close());
  const clock = systemClock();
  const other = await createAccount({ database, clock }, { name: 'Other', plan: 'business' });
  const at = { config: berth.config, port: berth.service().dashboardPort ?? 0 };
  const admin = parts.use(await signedIn(at, berth.accountId));
  const member = parts.use(await signedIn(at, berth.accountId, 'member'));
  const stranger = parts.use(await signedIn(at, other.id));
  const owned = parts.move();
  return {
    berth,
    directory,
    path: `/dashboard/directories/${directory.id}/webhook`,
    admin,
    member,
    stranger,
    database,
    settings: async () => dataOf(await berth.send('GET', `/directories/${directory.id}`)),
    async setUrl(webhook_url) {
      await berth.send('PATCH', `/directories/${directory.id}`, { json: { directory: { webhook_url } } });
    },
    audit: () =>
      database.reads
        .selectFrom('audit')
        .select(['action', 'key_id', 'route', 'changes'])
        .where('key_id', 'like', 'user:%')
        .where('account_id', 'in', [berth.accountId, other.id])
        .orderBy('id')
        .execute(),
    async addDelivery({ filename = 'in/report.csv', ...changes } = {}, attempts = []) {
      const row = await database.db
        .selectFrom('directories')
        .selectAll()
        .where('id', '=', directory.id)
        .executeTakeFirstOrThrow();
      const event = { directory: row, uploadId: null, filename, sizeBytes: 8, uploadedAt: clock.now() };
      const url = berth.receiver.url;
      const delivery = { ...deliveryFor(event, url), state: 'failed', due_at: null, finished_at: clock.now() } as const;
      await database.db
        .insertInto('deliveries')
        .values({ ...delivery, ...changes })
        .execute();
      for (const [index, attempt] of attempts.entries()) {
        const of = { delivery_id: delivery.id, number: index + 1, started_at: clock.now(), latency_us: 1500 };
        await database.db
          .insertInto('attempts')
          .values({ ...of, ...attempt })
          .execute();
      }
      return delivery.id;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const ENTITIES: Record<string, string> = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&amp;': '&' };

export function unescaped(html: string): string {
  return html.replaceAll(/&(?:lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity] ?? '');
}

/** What a reader sees of it. */
export function textOf(html: string): string {
  return unescaped(html.replaceAll(/<[^>]*>/g, ''));
}

/** What stands in the page's `pre` elements, in order. */
export function preformatted(html: string): string[] {
  return [...html.matchAll(/<pre[^>]*>([^]*?)<\/pre>/g)].map(([, text = '']) => textOf(text));
}

/** The elements that hold something shown once. */
export function secretsIn(html: string): string[] {
  return [...html.matchAll(/data-secret="webhook-secret">([^<]*)</g)].map(([, text = '']) => unescaped(text));
}
