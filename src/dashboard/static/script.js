// What pages have beside their HTML: copy buttons, times in the reader's zone, questions before what cannot be undone. Every
// page works without it.

for (const button of document.querySelectorAll('[data-copy]')) {
  button.hidden = false;
  button.addEventListener('click', () => {
    const said = (text) => (button.textContent = text);
    navigator.clipboard.writeText(button.dataset.copy).then(
      () => said('Copied'),
      () => said('Not allowed'),
    );
    setTimeout(said, 2000, 'Copy');
  });
}

const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
function localTimes(root) {
  for (const time of root.querySelectorAll('time[datetime]')) time.textContent = format.format(new Date(time.dateTime));
}
localTimes(document);

document.addEventListener('submit', (event) => {
  const question = event.target.dataset.confirm;
  if (question !== undefined && !confirm(question)) event.preventDefault();
});
