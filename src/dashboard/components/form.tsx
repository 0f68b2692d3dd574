/** Forms: each carries the token of its session, and every field has a visible label and room for what is wrong with it. */
import type { FC, PropsWithChildren } from 'hono/jsx';
import { useRequestContext } from 'hono/jsx-renderer';
import type { FieldErrors } from '../../errors.ts';
import type { DashboardEnv } from '../environment.ts';

interface FormProps {
  readonly action?: string;
  /** Asked before it is sent, where there is JavaScript. */
  readonly confirm?: string;
  readonly class?: string;
}

export const Form: FC<PropsWithChildren<FormProps>> = ({ action, confirm, class: className, children }) => {
  const csrf = useRequestContext<DashboardEnv>().get('csrf');
  return (
    <form method="post" action={action} class={className} data-confirm={confirm}>
      {csrf !== undefined && <input type="hidden" name="_csrf" value={csrf} />}
      {children}
    </form>
  );
};

/** One button that does something at once. */
export const ActionButton: FC<FormProps & { label: string; kind?: 'danger'; fields?: Record<string, string> }> = ({
  label,
  kind,
  fields = {},
  ...form
}) => (
  <Form {...form} class="action">
    {Object.entries(fields).map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
    <button class={kind}>{label}</button>
  </Form>
);

interface FieldProps {
  readonly label: string;
  readonly name: string;
  readonly type?: 'text' | 'email' | 'password' | 'url' | 'search' | 'number' | 'datetime-local';
  readonly value?: string | undefined;
  readonly errors?: FieldErrors | undefined;
  readonly hint?: string;
  readonly isRequired?: boolean;
  readonly autocomplete?: string;
  readonly inputmode?: 'numeric';
  readonly rows?: number;
}

export const Field: FC<FieldProps> = ({
  label,
  name,
  type = 'text',
  value,
  errors,
  hint,
  isRequired,
  rows,
  ...rest
}) => {
  const wrong = errors?.[name];
  const about = [hint !== undefined && `${name}-hint`, wrong && `${name}-error`].filter(Boolean).join(' ');
  const attributes = {
    id: name,
    name,
    required: isRequired,
    'aria-invalid': wrong ? ('true' as const) : undefined,
    'aria-describedby': about === '' ? undefined : about,
    ...rest,
  };
  return (
    <div class="field">
      <label for={name}>{label}</label>
      {rows === undefined ? (
        <input type={type} value={value} {...attributes} />
      ) : (
        <textarea rows={rows} {...attributes}>
          {value}
        </textarea>
      )}
      {hint !== undefined && (
        <p class="hint" id={`${name}-hint`}>
          {hint}
        </p>
      )}
      {wrong && (
        <p class="error" id={`${name}-error`}>
          {label} {wrong.join(', ')}
        </p>
      )}
    </div>
  );
};

/** `options`: what each value is called. */
export const Select: FC<{
  label: string;
  name: string;
  options: Readonly<Record<string, string>>;
  value?: string | undefined;
}> = ({ label, name, options, value }) => (
  <div class="field">
    <label for={name}>{label}</label>
    <select id={name} name={name}>
      {Object.entries(options).map(([option, text]) => (
        <option value={option} selected={option === value}>
          {text}
        </option>
      ))}
    </select>
  </div>
);
