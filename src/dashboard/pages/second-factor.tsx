/** One's own second factor: set up with a QR code, new recovery codes, turned off. */
import type { Hono } from 'hono';
import type { FieldErrors } from '../../errors.ts';
import * as factor from '../../users/second-factor.ts';
import { Field, Form } from '../components/form.tsx';
import { Layout } from '../components/layout.tsx';
import { QrCode } from '../components/qr-code.tsx';
import { Secret } from '../components/secret.tsx';
import { Section } from '../components/section.tsx';
import { Copyable } from '../components/values.tsx';
import { changeOf, type DashboardEnv, type PageContext } from '../environment.ts';
import { fieldErrors, formFields } from '../form.ts';
import { sealed, unsealed } from '../sealed.ts';
import { showOnce, takeShownOnce } from '../shown-once.ts';

const PATH = '/dashboard/profile/second-factor';
/** The secret that is being set up stands in its form, so that nothing is kept until a code of it was right. */
const SEALED = 'berth second factor';

export function secondFactorPage(app: Hono<DashboardEnv>, deps: factor.SecondFactorDependencies): void {
  async function page(c: PageContext, { errors, secret }: { errors?: FieldErrors; secret?: string | undefined } = {}) {
    const { userId, email, needsSecondFactor } = c.get('user');
    const { isOn, recoveryCodes, hasPassword } = await factor.secondFactorOf(deps.database.reads, userId);
    const codes = takeShownOnce(c);
    if (errors) c.status(422);
    return c.render(
      <Layout title="Second factor" problem={needsSecondFactor ? 'Your account asks for a second factor.' : undefined}>
        {codes && <NewCodes codes={codes} />}
        {isOn && <Change recoveryCodes={recoveryCodes} hasPassword={hasPassword} errors={errors} />}
        {!isOn && <SetUp c={c} email={email} secret={secret ?? factor.newSecret()} errors={errors} />}
      </Layout>,
    );
  }
  const shown = (c: PageContext, codes: string[]) =>
    showOnce(c, { kind: 'recovery-codes', value: codes.join('\n'), page: PATH });
  const proofOf = async (c: PageContext): Promise<factor.Proof> => {
    const { code = '', current_password = '' } = await formFields(c);
    return { code, current_password };
  };

  app.get(PATH, (c) => page(c));

  app.post(PATH, async (c) => {
    const { code = '', secret: kept = '' } = await formFields(c);
    const secret = unsealed(c, SEALED, kept);
    if (secret === undefined) return c.redirect(PATH, 303);
    const errors = await fieldErrors(async () =>
      shown(c, await factor.setUpSecondFactor(deps, c.get('user').userId, { secret, code }, changeOf(c))),
    );
    return errors ? page(c, { errors, secret }) : c.redirect(PATH, 303);
  });

  app.post(`${PATH}/recovery-codes`, async (c) => {
    const proof = await proofOf(c);
    const errors = await fieldErrors(async () =>
      shown(c, await factor.renewRecoveryCodes(deps, c.get('user').userId, proof, changeOf(c))),
    );
    return errors ? page(c, { errors }) : c.redirect(PATH, 303);
  });

  app.post(`${PATH}/turn-off`, async (c) => {
    const proof = await proofOf(c);
    const errors = await fieldErrors(() => factor.turnOffSecondFactor(deps, c.get('user').userId, proof, changeOf(c)));
    return errors ? page(c, { errors }) : c.redirect('/dashboard/profile?done=second-factor-off', 303);
  });
}

const NewCodes = ({ codes }: { codes: NonNullable<ReturnType<typeof takeShownOnce>> }) => (
  <Secret secret={codes} label="Recovery codes">
    <p>Each works once in place of a code, for when your app is lost.</p>
    <a class="button" href="/dashboard">
      Continue
    </a>
  </Secret>
);

interface SetUpProps {
  readonly c: PageContext;
  readonly email: string;
  readonly secret: string;
  readonly errors?: FieldErrors | undefined;
}

const SetUp = ({ c, email, secret, errors }: SetUpProps) => (
  <Section title="Set it up" about="From then on a code of an app on your phone is asked for when you sign in.">
    <ol>
      <li>
        <p>Scan this code with an authenticator app.</p>
        <QrCode text={factor.keyUri(secret, email)} label="Picture for your app" />
        <p>
          Or type this key into it: <Copyable text={secret} label="key" />
        </p>
      </li>
      <li>
        <p>Enter the six digits that it shows.</p>
        <Form action={PATH}>
          <input type="hidden" name="secret" value={sealed(c, SEALED, secret)} />
          <Field label="Code" name="code" inputmode="numeric" autocomplete="one-time-code" isRequired errors={errors} />
          <button>Turn on</button>
        </Form>
      </li>
    </ol>
  </Section>
);

interface ChangeProps {
  readonly recoveryCodes: number;
  readonly hasPassword: boolean;
  readonly errors?: FieldErrors | undefined;
}

const Change = ({ recoveryCodes, hasPassword, errors }: ChangeProps) => (
  <Section title="It is on" about={`You have ${recoveryCodes} recovery codes left.`}>
    <p>To change it, enter a code{hasPassword && ' or your password'}.</p>
    <Form action={`${PATH}/recovery-codes`}>
      <Field label="Code" name="code" autocomplete="one-time-code" errors={errors} />
      {hasPassword && (
        <Field
          label="Current password"
          name="current_password"
          type="password"
          autocomplete="current-password"
          errors={errors}
        />
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
