/** The question before an action that cannot be undone, on a page of its own: it needs no script. */
import type { Context, Hono, MiddlewareHandler } from 'hono';
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import type { DashboardEnv, PageContext } from '../environment.ts';
import { Form } from './form.tsx';
import { DirectoryLayout } from './layout.tsx';
import { Section } from './section.tsx';

export interface Question {
  readonly title: string;
  readonly about: string;
  /** The word on the button. */
  readonly label: string;
  /** Whether the action destroys something. */
  readonly isDanger?: boolean;
}

interface ConfirmationProps {
  readonly of: Question;
  /** The address of the page before, for those who cancel. */
  readonly back: string;
  /** Where the form goes, if not to the page's own address. */
  readonly action?: string;
  /** What the form sends beside its token. */
  readonly fields?: readonly (readonly [name: string, value: string])[];
}

/** Its children name what the question is about. */
export const Confirmation: FC<PropsWithChildren<ConfirmationProps>> = ({
  of: { title, about, label, isDanger = true },
  back,
  action,
  fields = [],
  children,
}) => (
  <Section title={title} about={about}>
    <div class="asked">{children}</div>
    <Form class="actions" {...(action !== undefined && { action })}>
      {fields.map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <button class={isDanger ? 'danger solid' : undefined}>{label}</button>
      <a href={back}>Cancel</a>
    </Form>
  </Section>
);

interface Confirmed {
  readonly question: Question;
  /** What the question is about. */
  shown(c: PageContext): Promise<Child>;
  /** Does it, and returns the name of what is done. */
  run(c: PageContext): Promise<string>;
  /** The address of the list, to which both answers lead. */
  list(c: Context<DashboardEnv>, done?: string): string;
  /** Runs before both. */
  readonly guard?: MiddlewareHandler<DashboardEnv>;
}

/** Adds the page with the question, and the form that it sends. */
export function confirmedAction(
  app: Hono<DashboardEnv>,
  path: string,
  { question, shown, run, list, guard = (_, next) => next() }: Confirmed,
): void {
  app.get(path, guard, async (c) =>
    c.render(
      <DirectoryLayout tab="Files" page={question.label}>
        <Confirmation of={question} back={list(c)}>
          {await shown(c)}
        </Confirmation>
      </DirectoryLayout>,
    ),
  );
  app.post(path, guard, async (c) => c.redirect(list(c, await run(c)), 303));
}
