/** A directory at a glance: last uploads, storage, the webhook's health, live sessions and refused logins. */
import type { Hono } from 'hono';
import type { FC } from 'hono/jsx';
import type { Clock } from '../../../foundation/base/clock.ts';
import type { DirectoryRow, Tables } from '../../../foundation/db/schema.ts';
import type { Kysely } from 'kysely';
import type { LiveSessions } from '../../../rules/directories/end-session.ts';
import type { LoginLog } from '../../../operating/reports/login-log.ts';
import { receiverUrl } from '../../../deliveries/webhooks/receiver-of.ts';
import { displayName, type UploadList, type UploadRow } from '../../../arrivals/uploads/upload-list.ts';
import { DayChart, DaysChoice, daysIn } from '../components/day-chart.tsx';
import { DirectoryLayout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Name, Text } from '../components/text.tsx';
import { WebhookHealthLine } from '../components/webhook-health.tsx';
import { Badge, counted, Facts, Size, sizeInWords, Time } from '../components/values.tsx';
import { type DashboardEnv, pathOf } from '../environment.ts';
import { directoryDays, lastAttempts } from '../queries/directory.ts';
import { deliveriesOf } from './account-deliveries.tsx';
import { type WebhookHealth, webhookHealth } from '../queries/webhook-health.ts';

export interface DirectoryOptions {
  readonly reads: Kysely<Tables>;
  readonly clock: Clock;
  readonly uploads: UploadList;
  readonly sessions: LiveSessions;
  readonly logins: LoginLog;
}

export function directoryPage(app: Hono<DashboardEnv>, options: DirectoryOptions): void {
  const { reads, clock, uploads, sessions, logins } = options;

  app.get('/dashboard/directories/:id', async (c) => {
    const directory = c.get('directory');
    const { id, sftp_username: username } = directory;
    const path = pathOf(c);
    const days = daysIn(c.req.query('days'));
    const [newest] = await uploads.list(id, { limit: 1 });
    const url = await receiverUrl(reads, directory);
    const health = await webhookHealth(reads, id, { now: clock.now(), url: url ?? undefined });
    const byDay = await directoryDays(reads, directory, { now: clock.now(), days });
    const { refusal } = await lastAttempts(reads, logins, directory);
    const connected = sessions.of(username).length;
    const shown = byDay.map(({ day }) => day);
    return c.render(
      <DirectoryLayout
        tab="Overview"
        state={health.failing && <Badge kind="bad" text="webhook failing" />}
        actions={
          <a class="button" href={`${path}/connect`}>
            Connect
          </a>
        }
      >
        <div class="cards">
          <Section title="At a glance">
            <Facts
              of={{
                'Last upload': newest ? <LastUpload of={newest} path={path} /> : 'none yet',
                Storage: <Storage of={directory} />,
                'Connected now': <a href={`${path}/activity`}>{counted(connected)}</a>,
                'Last refusal': refusal ? (
                  <>
                    <Time at={refusal.at} />: <Text of={refusal.text} most={200} />
                    {refusal.address !== null && ` from ${refusal.address}`}{' '}
                    <a href={`${path}/login#why`}>How to fix it</a>
                  </>
                ) : (
                  'none'
                ),
              }}
            />
          </Section>
          <Section title="Webhook">
            <Webhook url={url} path={path} deliveries={deliveriesOf(id)} health={health} />
          </Section>
        </div>
        <DaysChoice current={days} />
        <div class="cards">
          <Section title="Uploads" about={`Files received in the last ${days} days.`}>
            <p class="figure">{counted(byDay.reduce((sum, { uploads: each }) => sum + each, 0))}</p>
            <DayChart
              title="Uploads per day"
              days={shown}
              values={byDay.map(({ uploads: each }) => each)}
              inWords={counted}
            />
          </Section>
          <Section title="Storage" about="Space that the directory’s files use.">
            <p class="figure">{sizeInWords(directory.storage_bytes)}</p>
            <DayChart
              title="Storage per day"
              days={shown}
              values={byDay.map(({ stored }) => stored)}
              inWords={sizeInWords}
            />
          </Section>
        </div>
      </DirectoryLayout>,
    );
  });
}

const LastUpload: FC<{ of: UploadRow; path: string }> = ({ of: { path: file, uploaded_at }, path }) => (
  <>
    <Name of={displayName(file)} most={300} href={`${path}/files`} />, <Time at={uploaded_at} />
  </>
);

const Storage: FC<{ of: DirectoryRow }> = ({ of: { storage_bytes, quota_bytes } }) => (
  <>
    <Size bytes={storage_bytes} />
    {quota_bytes !== null && ` of ${sizeInWords(quota_bytes)}`}
  </>
);

interface WebhookProps {
  /** Where webhooks go; null when none are sent. */
  readonly url: string | null;
  readonly path: string;
  /** Where the directory's deliveries are listed. */
  readonly deliveries: string;
  readonly health: WebhookHealth;
}

const Webhook: FC<WebhookProps> = ({ url, path, deliveries, health }) =>
  url === null ? (
    <p>
      <a href={`${path}/webhook`}>Set a webhook</a> to be notified of each file as soon as it is complete.
    </p>
  ) : (
    <>
      <WebhookHealthLine of={health} deliveries={deliveries} hasReceiver />
      <p>
        <Name of={url} href={`${path}/webhook`} />
      </p>
    </>
  );
