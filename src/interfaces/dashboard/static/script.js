// Adds to the pages' HTML: copy buttons, times in the user's zone, confirmation dialogs, live lists, and uploads. Everything
// except uploads works without it.
import { all, make } from './dom.js';
import { addFinding } from './find.js';

addFinding();

document.addEventListener('click', ({ target }) => {
  const button = target.closest?.('[data-copy]');
  if (!button) return;
  const [label] = button.childNodes;
  const say = (text) => (label.data = text);
  const before = (button.dataset.label ??= label.data);
  navigator.clipboard.writeText(button.dataset.copy).then(
    () => say('Copied'),
    () => say('Can’t copy'),
  );
  setTimeout(say, 2000, before);
});

// Times. `zone` is the user's choice. Fields send their times to the server in UTC.
const zoneNow = () =>
  localStorage.getItem('zone') === 'UTC' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
const isUtc = () => zoneNow() === 'UTC';
const local = (at) => new Date(at - at.getTimezoneOffset() * 60_000);
/** Formats UTC: 2026-11-22 13:43:31. */
const exact = (at) => (isUtc() ? at : local(at)).toISOString().slice(0, 19).replace('T', ' ');

const STEPS = [
  [60, 1, 'second'],
  [3600, 60, 'minute'],
  [86_400, 3600, 'hour'],
  [2_592_000, 86_400, 'day'],
];
const spans = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
function relative(at) {
  const ago = (at - Date.now()) / 1000;
  const [, unit, name] = STEPS.find(([limit]) => Math.abs(ago) < limit) ?? [];
  if (!unit) return exact(at).slice(0, 10);
  return unit === 1 ? 'just now' : spans.format(Math.round(ago / unit), name);
}

function showTimes(root) {
  for (const time of all('time[datetime]', root)) {
    const at = new Date(time.dateTime);
    time.textContent = 'exact' in time.dataset ? exact(at) : relative(at);
    time.title = `${exact(at)} ${zoneNow()}`;
  }
}

for (const field of all('input[type=datetime-local]')) {
  const sent = make('input', { type: 'hidden', name: field.name, value: field.value });
  sent.dataset.time = field.value;
  field.after(sent);
  field.removeAttribute('name');
  const show = () =>
    (field.value =
      sent.value && !isUtc()
        ? local(new Date(`${sent.value}Z`))
            .toISOString()
            .slice(0, 19)
        : sent.value);
  field.addEventListener('input', () => {
    sent.value = field.value && !isUtc() ? new Date(field.value).toISOString().slice(0, 19) : field.value;
  });
  sent.addEventListener('input', show);
  document.addEventListener('zone', show);
}

const foot = document.querySelector('[data-zone]');
function showZone() {
  for (const each of all('[data-zone-name]')) each.textContent = zoneNow();
  document.dispatchEvent(new Event('zone'));
  showTimes(document);
  if (!foot) return;
  foot.textContent = `Times are in ${zoneNow()}. `;
  const other = make('button', { className: 'plain', textContent: isUtc() ? 'Show local times' : 'Show UTC' });
  other.addEventListener('click', () => {
    localStorage.setItem('zone', isUtc() ? 'local' : 'UTC');
    showZone();
    foot.querySelector('button').focus();
  });
  foot.append(other);
}

/** Adds these to a part of the page, which may arrive later. */
function enhance(root) {
  showTimes(root);
  for (const button of all('[data-copy]', root)) button.hidden = false;
}
enhance(document);
showZone();
setInterval(() => document.hidden || showTimes(document), 30_000);

// After a refused form: scrolls to its section, and gives the summary above it the focus.
const summary = document.querySelector('.problem[autofocus]');
if (summary) {
  const wrong =
    document.querySelector('[aria-invalid]') ?? document.querySelector(`form[action="${location.pathname}"]`);
  wrong?.closest('.field, section')?.scrollIntoView();
  summary.focus({ preventScroll: true });
}
document.addEventListener('click', (event) => {
  const field = event.target.closest?.('.problem a') && document.querySelector(event.target.hash);
  if (!field) return;
  event.preventDefault();
  const folded = field.closest('details');
  if (folded) folded.open = true;
  field.focus();
});

/** Shows a button's question in a dialog, and sends the form without it if the user agrees. Without JavaScript, the server asks. */
document.addEventListener('submit', (event) => {
  const { target: form, submitter } = event;
  if (submitter?.name !== '_ask') return;
  event.preventDefault();
  const [label, about, text] = submitter.value.split('\n');
  const dialog = make('dialog');
  dialog.append(make('h2', { id: 'question', textContent: `${label}: ${about}` }), make('p', { textContent: text }));
  dialog.setAttribute('aria-labelledby', 'question');
  const actions = make('div', { className: 'actions' });
  const no = make('button', { className: 'plain', textContent: 'Cancel' });
  const yes = make('button', {
    className: submitter.classList.contains('danger') ? 'danger solid' : '',
    textContent: label,
  });
  no.addEventListener('click', () => dialog.close());
  yes.addEventListener('click', () => {
    dialog.close();
    submitter.name = '';
    form.requestSubmit(submitter);
    submitter.name = '_ask';
  });
  dialog.addEventListener('close', () => dialog.remove());
  actions.append(no, yes);
  dialog.append(actions);
  document.body.append(dialog);
  dialog.showModal();
});

// A form is sent once, however often the button is pressed while the network is slow. A download leaves the page as it is.
const SENDING_MS = 10_000;
const isLeaving = ({ defaultPrevented, target, submitter }) =>
  !defaultPrevented && target.method === 'post' && !('download' in (submitter?.dataset ?? {}));
document.addEventListener('submit', (event) => {
  const { target: form, submitter } = event;
  if (!isLeaving(event)) return;
  if (form.dataset.sent) return event.preventDefault();
  const label = submitter?.textContent;
  const release = () => {
    delete form.dataset.sent;
    submitter?.removeAttribute('aria-busy');
    if (submitter?.dataset.busy) submitter.textContent = label;
  };
  form.dataset.sent = 'yes';
  submitter?.setAttribute('aria-busy', 'true');
  if (submitter?.dataset.busy) submitter.textContent = submitter.dataset.busy;
  setTimeout(release, SENDING_MS);
  addEventListener('pageshow', release, { once: true });
});

// Keeps the input of a form until an answer to it arrives: berth may be down, or the session over. The form's page fills it in
// again for the same user. Secrets are not kept.
const KEPT = 'form';
const { user } = document.body.dataset;
const UNKEPT = ['hidden', 'password', 'file', 'checkbox'];
const SECRET = ['off', 'one-time-code'];
const fillable = (form) =>
  [...form.elements].filter(
    ({ name, type, dataset, autocomplete }) =>
      name && !name.startsWith('_') && !SECRET.includes(autocomplete) && ('time' in dataset || !UNKEPT.includes(type)),
  );
/** Whether an input has a value to keep: a radio button has one only while it is chosen. */
const isChosen = ({ type, checked }) => type !== 'radio' || checked;
const isSignIn = location.pathname.startsWith('/dashboard/sign-in');
document.addEventListener('submit', (event) => {
  if (!isLeaving(event) || isSignIn) return;
  const form = event.target;
  const fields = fillable(form)
    .filter(isChosen)
    .map(({ name, value }) => [name, value]);
  sessionStorage.setItem(KEPT, JSON.stringify({ user, path: location.pathname, action: form.action, fields }));
});
/** Returns the form, if the page has it. */
function writeInto({ action, fields }) {
  const form = all('form').find((each) => each.action === action);
  if (!form || fields.length === 0) return undefined;
  for (const [name, value] of fields) {
    const field = fillable(form).find((each) => each.name === name && (each.type !== 'radio' || each.value === value));
    if (!field || (field.value === value && isChosen(field))) continue;
    if (field.type === 'radio') field.checked = true;
    else field.value = value;
    field.dispatchEvent(new Event('input'));
    field.closest('details')?.setAttribute('open', '');
  }
  return form;
}
function fillIn({ isCutOff, ...input }) {
  const form = writeInto(input);
  if (!form) return;
  const text = isCutOff
    ? 'You were signed out before this was saved. Check your input and save again.'
    : 'berth didn’t answer, so this may not have been saved. Check your input and save again.';
  const notice = make('p', { className: 'notice', textContent: text });
  notice.setAttribute('role', 'status');
  form.before(notice);
  notice.scrollIntoView();
}
const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null');
// The answer to a form is a page of its own, or one to which it redirects.
const isAnswer = 'answer' in document.body.dataset || performance.getEntriesByType('navigation')[0]?.redirectCount > 0;
if (kept && isSignIn) sessionStorage.setItem(KEPT, JSON.stringify({ ...kept, isCutOff: true }));
else if (kept && (kept.isCutOff || !isAnswer) && kept.user === user && kept.path === location.pathname) {
  sessionStorage.removeItem(KEPT);
  fillIn(kept);
} else if (kept && (isAnswer || kept.user !== user)) sessionStorage.removeItem(KEPT);

// A page may have several forms. What was typed into the others is still there after one was sent, except after signing out.
// Secrets are not kept here either, nor is anything shown to another user.
const OTHERS = 'other-forms';
const isTyped = ({ type, checked, defaultChecked, defaultValue, value, dataset }) =>
  type === 'radio' ? checked && !defaultChecked : (dataset.time ?? defaultValue ?? value) !== value;
document.addEventListener('submit', (event) => {
  const { target: sent } = event;
  const { pathname } = new URL(sent.action);
  if (!isLeaving(event) || !user || pathname === '/dashboard/sign-out') return;
  const forms = all('form')
    .filter((form) => form !== sent && form.method === 'post')
    .map((form) => ({
      action: form.action,
      fields: fillable(form)
        .filter(isTyped)
        .map(({ name, value }) => [name, value]),
    }));
  sessionStorage.setItem(OTHERS, JSON.stringify({ user, paths: [location.pathname, pathname], forms }));
});
if (user) {
  const others = JSON.parse(sessionStorage.getItem(OTHERS) ?? 'null');
  sessionStorage.removeItem(OTHERS);
  if (isAnswer && others?.user === user && others.paths.includes(location.pathname)) others.forms.forEach(writeInto);
}

// Removes the name of the confirmed action from the URL, so that a bookmark or a shared URL does not have it.
const here = new URL(location);
if (here.searchParams.has('done')) {
  here.searchParams.delete('done');
  history.replaceState(null, '', here);
}

// A banner while the server does not answer.
let banner;
function answers(isUp) {
  if (isUp) banner?.remove();
  else if (!banner?.isConnected) {
    banner = make('p', {
      className: 'problem down',
      textContent: 'berth does not answer. This page may be out of date.',
    });
    banner.setAttribute('role', 'alert');
    document.querySelector('main').prepend(banner);
  }
}
function ping() {
  if (document.hidden) return;
  fetch('/dashboard/static/mark.svg', { method: 'HEAD', cache: 'no-store' }).then(
    ({ status }) => answers(status < 500),
    () => answers(false),
  );
}
setInterval(ping, 15_000);

for (const select of all('select[data-submit]')) select.addEventListener('change', () => select.form.requestSubmit());

// A secret that is shown once is not lost without a question, until it has been copied or downloaded.
const ONCE = ['api-key', 'sftp-password', 'sftp-passwords', 'recovery-codes'];
if (all('[data-secret]').some(({ dataset }) => ONCE.includes(dataset.secret))) {
  const ask = (event) => event.preventDefault();
  window.addEventListener('beforeunload', ask);
  const done = () => window.removeEventListener('beforeunload', ask);
  document.addEventListener('copy', done);
  document.addEventListener('click', ({ target }) => {
    if (target.closest?.('[data-copy], a[download]')) done();
  });
  // A link to another password takes the place of this one.
  document.addEventListener('submit', ({ defaultPrevented, target }) => {
    if (!defaultPrevented && target.elements.as) done();
  });
}

// Reads a file into a field. Spreadsheets write UTF-8, UTF-16, or what Windows had before.
const LARGEST_BYTES = 2 ** 20;
function textIn(bytes) {
  const beginning = new Uint8Array(bytes.slice(0, 2)).join();
  if (beginning === '255,254') return new TextDecoder('utf-16le').decode(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}
for (const area of all('[data-file]')) {
  const input = make('input', { type: 'file', accept: area.dataset.file });
  const label = make('label', { textContent: 'File' });
  const field = make('div', { className: 'field' });
  label.append(input);
  field.append(label);
  area.closest('.field').before(field);
  input.addEventListener('change', async () => {
    const [file] = input.files;
    input.setCustomValidity(file?.size > LARGEST_BYTES ? 'Choose a file of up to 1 MiB.' : '');
    if (file && input.reportValidity()) area.value = textIn(await file.arrayBuffer());
  });
}

// Follows the changes of a list while the page is visible. The server sends the list again after each change.
const live = document.querySelector('[data-live]');
let source;
function follow() {
  source?.close();
  if (!live || document.hidden) return;
  source = new EventSource(live.dataset.live);
  source.addEventListener('open', () => answers(true));
  source.addEventListener('error', ping);
  source.addEventListener('list', ({ data }) => {
    // The menu of a row stays open until its user has chosen.
    const menu = live.querySelector(':popover-open');
    if (menu) menu.addEventListener('toggle', () => show(data), { once: true });
    else show(data);
  });
  const show = (data) => {
    const { activeElement: active } = document;
    const nameOf = (each) => each.getAttribute('href') ?? each.getAttribute('popovertarget') ?? each.value;
    const focused = live.contains(active) && nameOf(active);
    const ticked = all('[name=file]:checked', live).map(({ value }) => value);
    const opened = all('details[open]', live).map(({ id }) => id);
    live.innerHTML = data;
    enhance(live);
    for (const each of all('details', live)) if (opened.includes(each.id)) each.open = true;
    for (const box of all('[name=file]', live)) box.checked = ticked.includes(box.value);
    if (focused)
      all('a, input, button', live)
        .find((each) => nameOf(each) === focused)
        ?.focus();
  };
  source.addEventListener('end', () => location.reload());
}
document.addEventListener('visibilitychange', follow);
follow();

// Actions on the ticked files of a list. They are hidden until one is ticked. The list may be replaced at any time.
const selection = document.querySelector('[data-selection]');
if (selection) {
  const list = selection.closest('form').querySelector('[data-live]');
  const every = () => list.querySelector('[data-all]');
  const boxes = () => all('input[name=file]', list);
  const count = selection.querySelector('output');
  const show = () => {
    const ticked = boxes().filter(({ checked }) => checked).length;
    const head = every();
    if (head) {
      head.checked = ticked > 0 && ticked === boxes().length;
      head.indeterminate = ticked > 0 && !head.checked;
      head.closest('label').hidden = boxes().length === 0;
    }
    count.textContent = ticked > 0 ? `${ticked} selected` : '';
    for (const button of all('button', selection)) button.hidden = ticked === 0;
    selection.classList.toggle('active', ticked > 0);
  };
  list.addEventListener('change', ({ target }) => {
    if (target === every()) for (const box of boxes()) box.checked = target.checked;
    show();
  });
  new MutationObserver(show).observe(list, { childList: true });
  show();
}

// Uploads files from this computer, one after the other, and shows the progress.
const drop = document.querySelector('[data-upload]');
if (drop) {
  const input = drop.querySelector('input[type=file]');
  const status = drop.querySelector('[role=status]');
  const send = (file) =>
    new Promise((resolve) => {
      const bar = make('progress', { max: 100, value: 0, ariaLabel: file.name });
      const text = make('span', { textContent: file.name });
      const line = make('p', { className: 'sending' });
      line.append(text, bar);
      status.append(line);
      const request = new XMLHttpRequest();
      const end = (result) => {
        text.textContent = `${file.name}: ${result}`;
        bar.remove();
        resolve();
      };
      request.upload.addEventListener('progress', ({ loaded, total }) => (bar.value = (loaded / total) * 100));
      request.addEventListener('load', () =>
        // Only 201 says that the file is stored: a proxy or a redirect may answer 200.
        end(
          request.status === 201
            ? 'uploaded'
            : request.responseText.slice(0, 300) || 'the file wasn’t uploaded. Try again.',
        ),
      );
      request.addEventListener('error', () => end('the connection was lost. Try again.'));
      request.open('PUT', `${drop.dataset.upload}${encodeURIComponent(file.name)}`);
      request.setRequestHeader('x-csrf', drop.querySelector('[name=_csrf]').value);
      request.setRequestHeader('content-type', 'application/octet-stream');
      request.send(file);
    });
  const sendAll = async (files) => {
    for (const file of files) await send(file);
    input.value = '';
    follow();
  };
  drop.hidden = false;
  drop.addEventListener('submit', (event) => event.preventDefault());
  input.addEventListener('change', () => void sendAll([...input.files]));
  for (const name of ['dragover', 'drop']) drop.addEventListener(name, (event) => event.preventDefault());
  drop.addEventListener('drop', ({ dataTransfer }) => void sendAll([...dataTransfer.files]));
}
