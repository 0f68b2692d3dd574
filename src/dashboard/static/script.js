// What pages have beside their HTML: copy buttons, times in the reader's zone, questions before what cannot be undone. Every
// page works without it.

document.addEventListener('click', ({ target }) => {
  const button = target.closest?.('[data-copy]');
  if (!button) return;
  const [words] = button.childNodes;
  const said = (text) => (words.data = text);
  navigator.clipboard.writeText(button.dataset.copy).then(
    () => said('Copied'),
    () => said('Not allowed'),
  );
  setTimeout(said, 2000, 'Copy');
});

/** As UTC is written, so that nothing moves: 2026-11-22 13:43:31. */
const two = (number) => String(number).padStart(2, '0');
function inZone(time) {
  const at = new Date(time.dateTime);
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join('-');
  return `${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')}`;
}

const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
const zone = document.querySelector('[data-zone]');

/** Also for what a page gets later. */
function enhance(root) {
  const isLocal = localStorage.getItem('zone') !== 'UTC';
  for (const time of root.querySelectorAll('time[datetime]')) time.textContent = isLocal ? inZone(time) : time.title;
  for (const button of root.querySelectorAll('[data-copy]')) button.hidden = false;
  if (!zone) return;
  zone.textContent = `Times are in ${isLocal ? timeZone : 'UTC'}. `;
  const other = document.createElement('button');
  other.className = 'plain';
  other.textContent = isLocal ? 'Show UTC' : 'Show local times';
  other.addEventListener('click', () => {
    localStorage.setItem('zone', isLocal ? 'UTC' : 'local');
    enhance(document);
    zone.querySelector('button').focus();
  });
  zone.append(other);
}
enhance(document);

/** Asks what the form says, in a dialog that names the action as its button does, and sends it on yes. */
document.addEventListener('submit', (event) => {
  const { target: form, submitter } = event;
  const question = form.dataset.confirm;
  if (question === undefined || form.dataset.confirmed) return;
  event.preventDefault();
  const dialog = document.createElement('dialog');
  const add = (parent, name, text) =>
    parent.appendChild(Object.assign(document.createElement(name), { textContent: text }));
  add(dialog, 'p', question).id = 'question';
  dialog.setAttribute('aria-labelledby', 'question');
  const actions = add(dialog, 'div', '');
  actions.className = 'actions';
  add(actions, 'button', 'Cancel').addEventListener('click', () => dialog.close());
  const yes = add(actions, 'button', submitter?.textContent ?? 'Yes');
  yes.className = submitter?.className ?? '';
  yes.addEventListener('click', () => {
    form.dataset.confirmed = 'yes';
    dialog.close();
    form.requestSubmit(submitter);
  });
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
});

// A list that follows what happens, while it is looked at. The server sends it anew after each change.
const live = document.querySelector('[data-live]');
let source;
function follow() {
  source?.close();
  if (!live || document.hidden) return;
  source = new EventSource(live.dataset.live);
  source.addEventListener('list', ({ data }) => {
    const focused = live.contains(document.activeElement) && document.activeElement.getAttribute('href');
    live.innerHTML = data;
    enhance(live);
    if (focused) live.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  });
  source.addEventListener('end', () => location.reload());
}
document.addEventListener('visibilitychange', follow);
follow();
