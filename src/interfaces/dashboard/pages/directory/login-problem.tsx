/** What stops customers from logging in, with its remedy: the settings that keep some out, and the last failed login. */
import type { FC } from 'hono/jsx';
import type { Micros } from '../../../../foundation/base/clock.ts';
import { addressToAllow, forMembers, type LoginCheck, remedyFor } from '../../../../operating/reports/login-rules.ts';
import type { DirectoryProps } from '../../components/directory.tsx';
import { ActionButton } from '../../components/form.tsx';
import { Section } from '../../components/section.tsx';
import { Text } from '../../components/text.tsx';
import { counted, Time } from '../../components/values.tsx';
import { COUNTED, type FailedLogin, isOver, type LastLogins } from '../../../../operating/reports/failed-logins.ts';

interface LoginProblemProps extends DirectoryProps {
  readonly checks: readonly LoginCheck[];
  readonly last: LastLogins;
  readonly isAdmin: boolean;
  readonly now: Micros;
}

export const LoginProblem: FC<LoginProblemProps> = ({ checks, last, directory, path, isAdmin, now }) => {
  const { login, failed } = last;
  const limits = checks.filter(({ lets }) => lets !== 'all');
  const isBlocked = limits.some(({ lets }) => lets === 'nobody');
  const isFailing = failed !== undefined && !isOver(failed, { login, directory, now });
  const address = isFailing ? addressToAllow(failed) : undefined;
  const remedy = (text: string | undefined) => (isAdmin || text === undefined ? text : forMembers(text));
  return (
    <Section
      title={isBlocked || isFailing ? 'Login problem' : login ? 'Logins work' : 'Nobody has logged in yet'}
      id="why"
    >
      <ul class="checks">
        {isFailing && (
          <li class="bad">
            <Failed of={failed} />
            {address === undefined || !isAdmin ? (
              <span class="quiet"> {remedy(remedyFor(failed.text))}</span>
            ) : (
              <>
                {' '}
                <ActionButton
                  action={`${path}/access/allow`}
                  label={`Allow ${address}`}
                  kind="primary"
                  fields={{ address }}
                />
              </>
            )}
          </li>
        )}
        {limits.map(({ lets, text, at, remedy: words }) => (
          <li class={lets === 'nobody' ? 'bad' : 'limit'}>
            {at === undefined ? (
              text
            ) : (
              <>
                It expired at <Time at={at} isExact />
              </>
            )}
            .<span class="quiet"> {remedy(words)}</span>
          </li>
        ))}
        {!isFailing && failed && (
          <li class="limit">
            <Failed of={failed} />{' '}
            <span class="quiet">
              {login && login.at > failed.at ? (
                <>
                  A login has succeeded since, <Time at={login.at} />.
                </>
              ) : (
                'This has been changed since. Nobody has tried again yet.'
              )}
            </span>
          </li>
        )}
        {!isBlocked && (
          <li class="good">
            {!failed &&
              (login ? (
                <>
                  The last login succeeded <Time at={login.at} />.{' '}
                </>
              ) : (
                'Nobody has tried. '
              ))}
            {isFailing || limits.length > 0 ? 'Nothing else stops a login.' : 'Nothing stops a login.'}
          </li>
        )}
      </ul>
      <a href={`${path}/activity?topic=logins`}>All logins</a>
    </Section>
  );
};

const Failed: FC<{ of: FailedLogin }> = ({ of: { at, address, text, times } }) => (
  <>
    {times > 1 ? `Failed ${counted(times)}${times === COUNTED ? ' or more' : ''} times, last ` : 'Last failed '}
    <Time at={at} />
    {address !== null && ` from ${address}`}: <Text of={text} most={200} />.
  </>
);
