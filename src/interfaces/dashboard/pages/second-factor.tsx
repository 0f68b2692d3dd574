/** The user's own second factor: sets it up with a QR code, renews recovery codes, and turns it off. */
import type { Hono } from 'hono';
import * as factor from '../../../rules/users/second-factor.ts';
import { CodeField, Form, PasswordField } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { Section } from '../components/section.tsx';
import { Copyable, Secret } from '../components/values.tsx';
import { type DashboardEnv, ownTarget, type PageContext } from '../environment.ts';
import { submitted } from '../form.ts';
import { sealed, unsealed } from '../sealed.ts';
import { showOnce, takeShownOnce } from '../after-redirect.ts';
import type { FC } from 'hono/jsx';
import { encode } from 'uqr';

const PATH = '/dashboard/profile/second-factor';
/** For sealing the new secret in its form, so that the server keeps nothing until a code of it was right. */
const SEALED = 'berth second factor';

export function secondFactorPage(app: Hono<DashboardEnv>, context: factor.FactorContext): void {
  async function page(c: PageContext) {
    const { userId, email, needsSecondFactor } = c.get('user');
    const { isOn, recoveryCodes, hasPassword } = await factor.secondFactorOf(context.database.reads, userId);
    const secret = unsealed(c, SEALED, c.get('refused')?.given['secret'] ?? '') ?? factor.newSecret();
    const asksPassword = hasPassword && !factor.hasSignedInJustNow(c.get('user'), context.clock.now());
    return c.render(
      <Layout
        title="Two-factor sign-in"
        above={[['Profile', '/dashboard/profile']]}
        problem={needsSecondFactor ? 'Your account requires two-factor sign-in.' : undefined}
      >
        <Secret of={takeShownOnce(c)} label="Recovery codes">
          <p>Each works once in place of a code, in case you lose your app.</p>
          <a class="button" href="/dashboard">
            Continue
          </a>
        </Secret>
        {isOn && <Change recoveryCodes={recoveryCodes} hasPassword={hasPassword} />}
        {!isOn && (
          <SetUp
            secret={secret}
            uri={factor.keyUri(secret, email)}
            sealed={sealed(c, SEALED, secret)}
            asksPassword={asksPassword}
          />
        )}
      </Layout>,
    );
  }
  const showCodes = (c: PageContext, codes: string[]): string => {
    showOnce(c, { kind: 'recovery-codes', value: codes.join('\n'), page: PATH });
    return PATH;
  };

  app.get(PATH, page);

  app.post(PATH, (c) =>
    submitted(c, page, async ({ code = '', secret: kept = '', current_password = '' }) => {
      const secret = unsealed(c, SEALED, kept);
      if (secret === undefined) return PATH;
      await factor.confirmOwner(context, ownTarget(c), current_password);
      return showCodes(c, await factor.setUpSecondFactor(context, ownTarget(c), { secret, code }));
    }),
  );

  app.post(`${PATH}/recovery-codes`, (c) =>
    submitted(c, page, async ({ code = '', current_password = '' }) => {
      const proof = { code, current_password };
      return showCodes(c, await factor.renewRecoveryCodes(context, ownTarget(c), proof));
    }),
  );

  app.post(`${PATH}/turn-off`, (c) =>
    submitted(c, page, async ({ code = '', current_password = '' }) => {
      await factor.turnOffSecondFactor(context, ownTarget(c), { code, current_password });
      return '/dashboard/profile?done=second-factor-off';
    }),
  );
}

interface SetUpProps {
  readonly secret: string;
  /** The content of the QR code. */
  readonly uri: string;
  /** The sealed secret for the form. */
  readonly sealed: string;
  readonly asksPassword: boolean;
}

const SetUp = ({ secret, uri, sealed: kept, asksPassword }: SetUpProps) => (
  <Section title="Set up" about="You’ll enter a code from an app on your phone each time you sign in.">
    <ol>
      <li>
        <p>Scan this code with an authenticator app.</p>
        <QrCode text={uri} label="QR code" />
        <p>
          Or enter this key: <Copyable text={secret} label="key" />
        </p>
      </li>
      <li>
        <p>Enter the six digits that the app shows.</p>
        <Form action={PATH}>
          <input type="hidden" name="secret" value={kept} />
          <CodeField inputmode="numeric" isRequired />
          {asksPassword && (
            <PasswordField
              label="Current password"
              name="current_password"
              autocomplete="current-password"
              isRequired
            />
          )}
          <button>Turn on</button>
        </Form>
      </li>
    </ol>
  </Section>
);

const Change = ({ recoveryCodes, hasPassword }: { recoveryCodes: number; hasPassword: boolean }) => (
  <Section title="Two-factor sign-in is on" about={`You have ${recoveryCodes} recovery codes left.`}>
    <p>To change it, enter a code{hasPassword && ' or your password'}.</p>
    <Form action={`${PATH}/recovery-codes`}>
      <CodeField />
      {hasPassword && (
        <PasswordField label="Current password" name="current_password" autocomplete="current-password" />
      )}
      <div class="actions">
        <button>New recovery codes</button>
        <button class="danger" formaction={`${PATH}/turn-off`}>
          Turn off
        </button>
      </div>
    </Form>
  </Section>
);

/** The width of the light border, in modules (ISO/IEC 18004). */
const BORDER = 4;

/** A QR code as SVG, dark on light in every colour scheme, as cameras need it. */
const QrCode: FC<{ text: string; label: string }> = ({ text, label }) => {
  const { size, data } = encode(text, { border: BORDER });
  const rows = data.map((row, y) => {
    const dark = row.map((isDark) => (isDark ? 1 : 0)).join('');
    return [...dark.matchAll(/1+/g)].map(({ 0: { length }, index }) => `M${index} ${y}h${length}v1h-${length}z`);
  });
  return (
    <svg class="qr-code" role="img" aria-label={label} viewBox={`0 0 ${size} ${size}`} shape-rendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={rows.flat().join('')} fill="#000" />
    </svg>
  );
};
