/** Several texts of which one is shown at a time, chosen without JavaScript. */
import type { Child, FC } from 'hono/jsx';

interface ChoiceProps {
  /** What is chosen. */
  readonly label: string;
  /** The name of the group of radio buttons, unique on the page. */
  readonly name: string;
  /** At most eight, as the stylesheet has a rule for each. */
  readonly of: Readonly<Record<string, Child>>;
}

/** Radio buttons that look like tabs. The stylesheet shows the text of the checked one. */
export const Choice: FC<ChoiceProps> = ({ label, name, of }) => (
  <div class="choice">
    <fieldset>
      <legend class="unseen">{label}</legend>
      {Object.keys(of).map((each, index) => (
        <label>
          <input type="radio" name={name} value={String(index)} checked={index === 0} />
          {each}
        </label>
      ))}
    </fieldset>
    {Object.entries(of).map(([each, text]) => (
      <div class="chosen">
        <h3 class="unseen">{each}</h3>
        {text}
      </div>
    ))}
  </div>
);
