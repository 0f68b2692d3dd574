/**
 * Forms. Each contains the token of its session, and every field has a visible label and shows its errors. Those who may only read
 * see what is set, in fields that are disabled.
 */
import { randomUUID } from 'node:crypto';
import type { FC, PropsWithChildren } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import { WAS } from '../form.ts';
import { plainText } from '../../../foundation/base/text.ts';
import { type DashboardEnv, directoryIn } from '../environment.ts';
import { maySend } from '../limits.ts';
import { FORM_ID } from '../sent-forms.ts';
import { sentencesOf } from '../words.ts';
import { LongText } from './text.tsx';

interface FormProps {
  readonly action?: string;
  readonly class?: string;
  /** The URL to which the script sends the form's files. Without JavaScript, the form is not shown. */
  readonly upload?: string;
  /** Whether it has an id, so that it creates once although it is sent twice (`sent-forms.ts`). */
  readonly isOnce?: boolean;
}

export const Form: FC<PropsWithChildren<FormProps>> = ({
  action,
  upload,
  isOnce = false,
  class: className,
  children,
}) => {
  const c = useRequestContext<DashboardEnv>();
  const csrf = c.get('csrf');
  const isOff = !maySend(c, action);
  if (isOff && upload !== undefined) return <></>;
  return (
    <form method="post" action={action} class={className} data-upload={upload} hidden={upload !== undefined}>
      {csrf !== undefined && <input type="hidden" name="_csrf" value={csrf} />}
      {isOnce && <input type="hidden" name={FORM_ID} value={randomUUID()} />}
      {isOff ? <fieldset disabled>{children}</fieldset> : children}
    </form>
  );
};

/** The values that a form's fields have when it is rendered, so that only changed ones are saved (`form.ts`). */
export const Was: FC<{ of: Readonly<Record<string, string>> }> = ({ of }) => (
  <>
    {Object.entries(of).map(([name, value]) => (
      <input type="hidden" name={`${WAS}${name}`} value={value} />
    ))}
  </>
);

/** The field with a button's question (`confirmation.tsx`). */
export const ASK = '_ask';

interface ButtonProps {
  readonly label: string;
  /** The object of the action, if not the page's directory. It may be a name that somebody has chosen. */
  readonly about?: string | undefined;
  /** What the action does, if that is asked about first. */
  readonly confirm?: string | undefined;
  readonly kind?: 'danger' | 'primary' | undefined;
  /** Where it sends the form, if not where the form says. */
  readonly formaction?: string;
  /** What it says until the answer arrives. */
  readonly busy?: string;
}

/** A button of a form. A list has many with the same label, so each is described by its object. Those who may not send it do not see it. */
export const Button: FC<ButtonProps> = ({ label, about, confirm, kind, formaction, busy }) => {
  const c = useRequestContext<DashboardEnv>();
  if (formaction !== undefined && !maySend(c, formaction)) return <></>;
  const object = about ?? directoryIn(c)?.name ?? '';
  const question = confirm !== undefined && { name: ASK, value: [label, plainText(object), confirm].join('\n') };
  return (
    <button
      class={kind}
      title={about === undefined ? undefined : plainText(about)}
      formaction={formaction}
      data-busy={busy}
      {...question}
    >
      {label}
    </button>
  );
};

/** A form with a single button. Those who may not send it do not see it. */
export const ActionButton: FC<ButtonProps & { action?: string; fields?: Record<string, string> }> = ({
  action,
  fields = {},
  ...button
}) =>
  maySend(useRequestContext<DashboardEnv>(), action) ? (
    <Form class="action" {...(action !== undefined && { action })}>
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <Button {...button} />
    </Form>
  ) : (
    <></>
  );

interface NamedProps {
  readonly label: string;
  readonly name: string;
}

interface FieldProps extends NamedProps {
  readonly type?: 'text' | 'email' | 'password' | 'url' | 'search' | 'number' | 'datetime-local';
  readonly value?: string | undefined;
  readonly hint?: string | undefined;
  readonly isRequired?: boolean;
  readonly autocomplete?: string;
  readonly inputmode?: 'numeric';
  readonly rows?: number;
  /** Whether it has the focus when the page opens. */
  readonly isFirst?: boolean;
  readonly placeholder?: string;
  /** Values that the browser suggests; others can be typed. */
  readonly choices?: readonly string[];
  /** Where the script finds directories to pick, whose usernames it writes into the field. */
  readonly picks?: string;
  /** Where the script finds directories to suggest. The one that is chosen replaces the text. */
  readonly suggests?: string;
  /** The types of files that the script can read into the field. */
  readonly file?: string;
}

/** Fields with these purposes are always empty at first. */
const NEVER_FILLED_IN = ['current-password', 'new-password', 'one-time-code'];

/** A field with its label. After a refusal it shows the given value and the errors. */
export const Field: FC<FieldProps> = ({
  label,
  name,
  type = 'text',
  value,
  hint,
  isRequired,
  isFirst,
  rows,
  choices = [],
  picks,
  suggests,
  file,
  ...others
}) => {
  const { given, errors } = useRequestContext<DashboardEnv>().get('refused') ?? {};
  const wrong = errors?.[name];
  const text = NEVER_FILLED_IN.includes(others.autocomplete ?? '') ? undefined : (given?.[name] ?? value);
  const about = [hint !== undefined && `${name}-hint`, wrong && `${name}-error`].filter(Boolean).join(' ');
  const attributes = {
    id: name,
    name,
    required: isRequired,
    autofocus: isFirst === true && !errors,
    'aria-invalid': wrong ? ('true' as const) : undefined,
    'aria-describedby': about === '' ? undefined : about,
    step: type === 'datetime-local' ? 1 : undefined,
    list: choices.length > 0 ? `${name}-choices` : undefined,
    'data-picks': picks,
    'data-suggests': suggests,
    'data-file': file,
    ...others,
  };
  return (
    <div class="field">
      <label for={name}>
        {label}
        {type === 'datetime-local' && (
          <>
            {' '}
            <span class="quiet">
              (<span data-zone-name>UTC</span>)
            </span>
          </>
        )}
      </label>
      {rows === undefined ? (
        <input type={type} value={text} {...attributes} />
      ) : (
        <textarea rows={rows} {...attributes}>
          <LongText of={text ?? ''} />
        </textarea>
      )}
      {choices.length > 0 && (
        <datalist id={`${name}-choices`}>
          {choices.map((choice) => (
            <option value={choice} />
          ))}
        </datalist>
      )}
      {hint !== undefined && (
        <p class="hint" id={`${name}-hint`}>
          {hint}
        </p>
      )}
      {wrong && (
        <p class="error" id={`${name}-error`}>
          {sentencesOf(name, wrong, given ?? {}, label).join(' ')}
        </p>
      )}
    </div>
  );
};

export const PasswordField: FC<Omit<FieldProps, 'type' | 'value'>> = (props) => (
  <Field type="password" autocomplete="new-password" {...props} />
);

/** A field for a code of the second factor. */
export const CodeField: FC<Pick<FieldProps, 'hint' | 'inputmode' | 'isRequired' | 'isFirst'>> = (props) => (
  <Field label="Code" name="code" autocomplete="one-time-code" {...props} />
);

interface SelectProps extends NamedProps {
  /** The label of each value. */
  readonly options: Readonly<Record<string, string>>;
  readonly value?: string;
}

export const Select: FC<SelectProps> = ({ label, name, options, value }) => {
  const chosen = useRequestContext<DashboardEnv>().get('refused')?.given[name] ?? value;
  return (
    <div class="field">
      <label for={name}>{label}</label>
      <select id={name} name={name}>
        {Object.entries(options).map(([option, text]) => (
          <option value={option} selected={option === chosen}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
};

/** Rarely used fields, folded unless one of them has an error. */
export const Folded: FC<PropsWithChildren<{ summary: string; fields: readonly string[] }>> = ({
  summary,
  fields,
  children,
}) => {
  const { errors = {} } = useRequestContext<DashboardEnv>().get('refused') ?? {};
  return (
    <details open={fields.some((name) => name in errors)}>
      <summary>{summary}</summary>
      {children}
    </details>
  );
};
