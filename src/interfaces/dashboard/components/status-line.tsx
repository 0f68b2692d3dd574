/** How a directory is doing, in one line below its name. Only what is wrong has a colour, and links to its remedy. */
import type { Child, FC } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { deliveriesOf } from '../directories-view.ts';
import { type DashboardEnv, type DirectoryStatus, pathOf } from '../environment.ts';
import { counted, sizeInWords, Time } from './values.tsx';

export const StatusLine = async () => {
  const c = useRequestContext<DashboardEnv>();
  const directory = c.get('directory');
  const path = pathOf(c);
  const { lastFile, connected, webhook, failedLogin } = await c.get('status')();
  const { storage_bytes: stored, quota_bytes: quota } = directory;
  const isFull = quota !== null && stored >= quota;
  const parts: Child[] = [
    lastFile === null ? (
      'No files yet'
    ) : (
      <>
        Last file <Time at={lastFile} />
      </>
    ),
    <Wrong href={isFull ? `${path}/settings#quota` : undefined}>
      {isFull && 'Full: '}
      {quota === null ? sizeInWords(stored) : `${sizeInWords(stored)} of ${sizeInWords(quota)}`}
    </Wrong>,
    `${counted(connected)} connected`,
    <Webhook of={webhook} id={directory.id} />,
    failedLogin && (
      <Wrong href={`${path}/access#why`}>
        Login failed <Time at={failedLogin.at} />
      </Wrong>
    ),
  ];
  return <p class="parts quiet status">{parts.map((part) => part !== undefined && <span>{part}</span>)}</p>;
};

/** A link in colour, or only its text. */
const Wrong: FC<{ href: string | undefined; children?: Child }> = ({ href, children }) =>
  href === undefined ? (
    <>{children}</>
  ) : (
    <a class="bad" href={href}>
      {children}
    </a>
  );

const Webhook: FC<{ of: DirectoryStatus['webhook']; id: string }> = ({ of: webhook, id }) => {
  if (webhook === undefined) return <>No webhook</>;
  const { failingSince, last } = webhook;
  if (failingSince !== undefined)
    return (
      <Wrong href={`${deliveriesOf(id)}&state=failed`}>
        Webhook failing, started <Time at={failingSince} />
      </Wrong>
    );
  if (!last) return <>Webhook not tried yet</>;
  const isAccepted = last.status !== null && last.status >= 200 && last.status < 300;
  if (isAccepted) return <>Webhook works</>;
  return (
    <Wrong href={`/dashboard/directories/${id}/webhook`}>
      {last.isTest ? 'Webhook test failed' : 'Webhook fails, berth tries again'}
    </Wrong>
  );
};
