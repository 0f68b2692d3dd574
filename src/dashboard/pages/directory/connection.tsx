/** Where a directory is found, by what the server is recognized, and what to paste into each client. */
import type { FC } from 'hono/jsx';
import type { DirectoriesTable } from '../../../db/schema.ts';
import type { PublicHostKey } from '../../../sftp/public-host-keys.ts';
import { Section } from '../../components/section.tsx';
import { Copyable, Facts } from '../../components/values.tsx';
import { clientCommands } from './client-commands.ts';

interface ConnectionProps {
  readonly directory: Pick<DirectoriesTable, 'sftp_host' | 'sftp_port' | 'sftp_username'>;
  readonly hostKeys: readonly PublicHostKey[];
}

export const Connection: FC<ConnectionProps> = ({ directory, hostKeys }) => {
  const { sftp_host: host, sftp_port: port, sftp_username: username } = directory;
  const keys = hostKeys.map(({ type, fingerprint }) => [`${type} key`, fingerprint]);
  const lines = hostKeys.map(({ type, known_hosts: line }) => [type, line]);
  return (
    <Section title="Connection">
      <Copyables of={{ Host: host, Port: String(port), Username: username, ...Object.fromEntries(keys) }} />
      <h3>Commands</h3>
      <p class="quiet">
        Each asks for the password. FileZilla takes the address in its field Host, curl uploads with -T FILE.
      </p>
      <Copyables of={clientCommands({ host, port, username }, hostKeys)} />
      <details>
        <summary>Lines for known_hosts</summary>
        <p class="quiet">With them in ~/.ssh/known_hosts, a customer's client knows the server at its first login.</p>
        <Copyables of={Object.fromEntries(lines)} />
      </details>
    </Section>
  );
};

const Copyables: FC<{ of: Readonly<Record<string, string>> }> = ({ of }) => (
  <Facts
    of={Object.fromEntries(Object.entries(of).map(([name, text]) => [name, <Copyable text={text} label={name} />]))}
  />
);
