/** Where a directory is found, by what the server is recognized, and what to paste into each client. */
import type { FC } from 'hono/jsx';
import type { PublicHostKey } from '../../../sftp/public-host-keys.ts';
import { Section } from '../../components/section.tsx';
import { Copyable, Facts } from '../../components/values.tsx';
import type { Place } from './client-commands.ts';

interface ConnectionProps {
  readonly place: Place;
  readonly hostKeys: readonly PublicHostKey[];
  /** By their clients. */
  readonly commands: Readonly<Record<string, string>>;
}

export const Connection: FC<ConnectionProps> = ({ place: { host, port, username }, hostKeys, commands }) => {
  const keys = Object.fromEntries(hostKeys.map(({ type, fingerprint }) => [`${type} key`, fingerprint]));
  const lines = Object.fromEntries(hostKeys.map(({ type, known_hosts: line }) => [type, line]));
  return (
    <Section title="Connection">
      <Copyables of={{ Host: host, Port: String(port), Username: username, ...keys }} />
      <h3>Commands</h3>
      <p class="quiet">
        Each asks for the password. FileZilla takes the address in its field Host, curl uploads with -T FILE.
      </p>
      <Copyables of={commands} />
      <details>
        <summary>Lines for known_hosts</summary>
        <p class="quiet">With them in ~/.ssh/known_hosts, a customer's client knows the server at its first login.</p>
        <Copyables of={lines} />
      </details>
    </Section>
  );
};

const Copyables: FC<{ of: Readonly<Record<string, string>> }> = ({ of }) => {
  const facts = Object.entries(of).map(([name, text]) => [name, <Copyable text={text} label={name} />]);
  return <Facts of={Object.fromEntries(facts)} />;
};
