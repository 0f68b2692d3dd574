// Finds things while one types: from every page, and directories for a field that has usernames.
import { all, make } from './dom.js';

// Suggests things below a field while one types, as a listbox that arrow keys go through. `first` is the index of the one that Enter
// picks at once, if any.
function suggest(input, address, pick, { first = -1, nothing = 'No directory matches.' } = {}) {
  const list = make('ul', { id: `${input.id}-found`, className: 'found', hidden: true });
  list.setAttribute('role', 'listbox');
  list.setAttribute('aria-label', 'Suggestions');
  // Says that nothing was found, or that the search failed.
  const note = make('p', { className: 'found', hidden: true });
  note.setAttribute('role', 'status');
  const holder = make('div', { className: 'finding' });
  input.replaceWith(holder);
  holder.append(input, list, note);
  for (const [name, value] of Object.entries({
    role: 'combobox',
    'aria-autocomplete': 'list',
    'aria-controls': list.id,
    'aria-expanded': 'false',
  }))
    input.setAttribute(name, value);
  let found = [];
  let active = -1;
  let timer;
  // The text that was searched for last.
  let searched = '';
  const show = () => {
    list.hidden = found.length === 0;
    input.setAttribute('aria-expanded', String(found.length > 0));
    for (const [index, option] of [...list.children].entries())
      option.setAttribute('aria-selected', String(index === active));
    const id = list.children[active]?.id;
    if (id) input.setAttribute('aria-activedescendant', id);
    else input.removeAttribute('aria-activedescendant');
  };
  const fill = (directories, text = '') => {
    [found, active] = [directories, directories.length > 0 ? first : -1];
    note.textContent = text;
    note.hidden = text === '';
    list.replaceChildren(
      ...found.map(({ name, about }, index) => {
        const option = make('li', { id: `${list.id}-${index}` });
        option.setAttribute('role', 'option');
        option.append(make('bdi', { textContent: name }), make('code', { textContent: about }));
        // Before the field loses the focus, which closes the list.
        option.addEventListener('mousedown', (event) => {
          event.preventDefault();
          choose(index);
        });
        return option;
      }),
    );
    show();
  };
  const choose = (index) => {
    const directory = found[index];
    fill([]);
    pick(directory);
  };
  const look = async () => {
    const text = input.value.trim();
    if (text === '') return fill([]);
    const { directories, problem } = await search(text);
    if (text !== input.value.trim() || document.activeElement !== input) return;
    searched = text;
    fill(directories, problem ?? (directories.length === 0 ? nothing : ''));
  };
  const search = async (text) => {
    try {
      const headers = { accept: 'application/json' };
      const response = await fetch(`${address}?q=${encodeURIComponent(text)}`, { headers });
      if (response.ok) return { directories: await response.json() };
      if (response.status === 401)
        return { directories: [], problem: 'Your session has ended. Reload this page to sign in.' };
    } catch {
      // Like a response that is no list.
    }
    return { directories: [], problem: 'The search failed. Try again.' };
  };
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(look, 120);
  });
  input.addEventListener('blur', () => fill([]));
  input.addEventListener('keydown', (event) => {
    const { key } = event;
    // The key belongs to an input method, as for Chinese.
    if (event.isComposing) return;
    // Otherwise, it closes the menu around the field.
    if (key === 'Escape' && found.length > 0) event.preventDefault();
    if (key === 'Escape') fill([]);
    // Faster than the search: what it finds is picked as soon as it is there.
    if (key === 'Enter' && first >= 0 && input.value.trim() !== '' && input.value.trim() !== searched) {
      event.preventDefault();
      clearTimeout(timer);
      void look().then(() => (found.length > 0 ? choose(first) : input.form.requestSubmit()));
      return;
    }
    if ((key !== 'ArrowDown' && key !== 'ArrowUp' && key !== 'Enter') || found.length === 0) return;
    if (key === 'Enter' && active < 0) return;
    event.preventDefault();
    if (key === 'Enter') return choose(active);
    active = (active + (key === 'ArrowDown' ? 1 : found.length + (active < 0 ? 0 : -1))) % found.length;
    show();
  });
}

/** Adds both to the page. */
export function addFinding() {
  const finder = document.querySelector('#find');
  if (finder) {
    const open = ({ address }) => location.assign(address);
    suggest(finder, finder.form.dataset.find, open, { first: 0, nothing: 'Nothing matches.' });
    document.addEventListener('keydown', (event) => {
      const { target, key, metaKey, ctrlKey, altKey } = event;
      const isTyping = target.closest('input, textarea, select, dialog') !== null;
      const isSlash = key === '/' && !isTyping && !metaKey && !ctrlKey && !altKey;
      if (!isSlash && !(key === 'k' && (metaKey || ctrlKey))) return;
      event.preventDefault();
      if (!finder.checkVisibility()) document.querySelector('#menu').showPopover();
      finder.focus();
      finder.select();
    });
  }

  // Completes the name of a directory, and sends the form.
  for (const input of all('[data-suggests]'))
    suggest(input, input.dataset.suggests, ({ about }) => {
      input.value = about;
      input.form.requestSubmit();
    });

  // Picks directories by their names for a field that has their usernames, one per line.
  for (const area of all('[data-picks]')) {
    const { id } = area;
    area.id = `${id}-lines`;
    area.hidden = true;
    const input = make('input', { id, type: 'search', autocomplete: 'off', placeholder: 'Name or username' });
    const described = area.getAttribute('aria-describedby');
    if (described) input.setAttribute('aria-describedby', described);
    const picked = make('ul', { className: 'picked' });
    area.before(picked, input);
    const lines = () =>
      area.value
        .split(/[\n\r,]+/)
        .map((line) => line.trim())
        .filter((line) => line !== '');
    const set = (usernames) => {
      area.value = [...new Set(usernames)].join('\n');
      picked.replaceChildren(
        ...lines().map((username) => {
          const item = make('li');
          const remove = make('button', {
            type: 'button',
            className: 'plain',
            textContent: 'Remove',
            ariaLabel: `Remove ${username}`,
          });
          remove.addEventListener('click', () => {
            set(lines().filter((each) => each !== username));
            input.focus();
          });
          item.append(make('code', { textContent: username }), remove);
          return item;
        }),
      );
    };
    set(lines());
    area.addEventListener('input', () => set(lines()));
    suggest(input, area.dataset.picks, ({ about }) => {
      set([...lines(), about]);
      input.value = '';
    });
    // A username that was pasted, or typed in full.
    input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.isComposing || event.defaultPrevented) return;
      event.preventDefault();
      set([...lines(), ...input.value.split(/[\s,]+/).filter(Boolean)]);
      input.value = '';
    });
    area.form.addEventListener('submit', () => set([...lines(), ...input.value.split(/[\s,]+/).filter(Boolean)]), true);
  }
}
