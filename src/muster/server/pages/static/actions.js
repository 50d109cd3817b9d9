// What forms and buttons of pages do: they send a request to the API, and the server makes `[data-part]` of the page anew.
import { $, $$, h, label, phrase, say } from './dom.js';
import { send, toast, trying } from './api.js';
import { ask } from './dialog.js';

const identity = (element) => element.getAttribute('href') ?? element.id ?? '';
const key = (element) => [identity(element), ...['path', 'send', 'body', 'open', 'fill'].map((name) => element.dataset[name] ?? '')].join(' ');

const tags = new Map();
/** Has the server make the parts of the page anew; focus stays where it was, and a part that has not changed stays as it is. */
export const refresh = (anew = false) => trying(async () => {
  const part = $('[data-part]');
  if (!part) return;
  const words = new URLSearchParams(location.search);
  words.set('part', '1');
  const answer = await send('GET', `${location.pathname}?${words}`, undefined, { headers: { 'If-None-Match': anew ? '' : tags.get(part) ?? '' } });
  if (answer.status === 304) return;
  tags.set(part, answer.headers.get('ETag') ?? '');
  const made = new DOMParser().parseFromString(await answer.text(), 'text/html'); // of this server's own templates
  const focused = part.contains(document.activeElement) ? key(document.activeElement) : null;
  const opened = $$('details[open][id]', part).map((one) => one.id);
  part.replaceChildren(...made.body.childNodes);
  for (const id of opened) { const found = document.getElementById(id); if (found) found.open = true; }
  if (focused) $$('a, button, input, select, [tabindex]', part).find((one) => key(one) === focused)?.focus();
  part.dispatchEvent(new Event('rendered', { bubbles: true }));
});

/** The value of a field as the API wants it: numbers, yes or no, JSON; nothing is null. */
const valueOf = (field) => {
  if (field.type === 'checkbox') return field.checked;
  if (field.value === '') return field.hasAttribute('data-text') ? '' : null;
  if (field.type === 'number' || field.hasAttribute('data-number')) return Number(field.value);
  if (field.hasAttribute('data-json')) return JSON.parse(field.value);
  return field.value;
};

/** The body that a form sends: names with dots are fields of fields; boxes with `data-list` that are checked make a list. */
const bodyOf = (form) => {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.hasAttribute('data-unsent')) continue;
    const names = field.name.split('.');
    const last = names.pop();
    const inner = names.reduce((outer, name) => { outer[name] ??= {}; return outer[name]; }, body);
    if (field.hasAttribute('data-list')) { inner[last] ??= []; if (field.checked) inner[last].push(field.value); } else inner[last] = valueOf(field);
  }
  return body;
};
const pathOf = (element) => element.dataset.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(element.elements[name].value));

/** Shows a secret that is told once. */
const showOnce = (heading, note, secrets) => new Promise((resolve) => {
  const title = h('h2', { id: 'secret-title' }, phrase(heading));
  const rows = secrets.filter(([, value]) => value).flatMap(([name, value]) => {
    const field = label(h('input', { readonly: true, value, 'data-secret': name, onfocus: () => field.select() }), 'aria-label', `once.${name}`);
    const copy = h('button', { type: 'button', onclick: async () => { field.select(); try { await navigator.clipboard.writeText(value); toast('once.copied'); } catch { document.execCommand('copy'); } } }, phrase('once.copy'));
    return [h('p', { class: 'note' }, phrase(`once.${name}`)), h('p', { class: 'once' }, field, copy)];
  });
  const close = h('button', { type: 'button', onclick: () => dialog.close() }, phrase('once.close'));
  const dialog = h('dialog', { 'aria-labelledby': title.id }, title, h('p', {}, phrase(note)), ...rows, h('p', { class: 'actions' }, close));
  dialog.addEventListener('close', () => { dialog.remove(); resolve(); });
  document.body.append(dialog);
  dialog.showModal();
  $('input', dialog)?.focus();
});

const act = async (element, body) => {
  const { send: method, ask: heading, text, action, name, values, done, once, note, next, tag } = element.dataset;
  const given = values ? JSON.parse(values) : {};
  if (heading && !await ask({ heading, text, action, values: given, name: name ?? '', danger: !element.hasAttribute('data-mild') })) return;
  const answer = await send(method, pathOf(element), body, { headers: tag ? { 'If-Match': tag } : {} });
  const shown = answer.status === 204 ? {} : await answer.json();
  element.closest('dialog')?.close();
  if (once) await showOnce(once, note, [['id', shown.key?.id], ['secret', shown.secret], ['link', shown.link?.link ?? shown.link]]);
  if (done) toast(done, given);
  if (next) { location.assign(next.replace('{name}', encodeURIComponent(shown.name ?? ''))); return; }
  if (element.matches('form') && !element.hasAttribute('data-keep')) element.reset();
  await refresh();
};

document.addEventListener('click', (event) => {
  const opener = event.target.closest('[data-open]');
  if (opener) {
    const dialog = $(`dialog[data-dialog="${opener.dataset.open}"]`);
    const form = $('form', dialog);
    const fill = JSON.parse(opener.dataset.fill || '{}');
    form.reset();
    for (const [name, value] of Object.entries(fill)) if (form.elements[name]) form.elements[name].value = value;
    for (const place of $$('[data-shows]', dialog)) place.textContent = fill[place.dataset.shows] ?? '';
    dialog.showModal();
    return;
  }
  if (event.target.closest('dialog [data-close]')) event.target.closest('dialog').close();
  const button = event.target.closest('button[data-send]');
  if (button) trying(() => act(button, button.dataset.body ? JSON.parse(button.dataset.body) : undefined));
});
document.addEventListener('submit', (event) => {
  const form = event.target.closest('form[data-send]');
  if (!form) return;
  event.preventDefault();
  const button = event.submitter;
  if (button) button.disabled = true;
  trying(() => act(form, bodyOf(form))).finally(() => { if (button) button.disabled = false; });
});
// A field that has to hold the same as another, such as a password that is typed again.
document.addEventListener('input', (event) => {
  const again = event.target.form && $('[data-same]', event.target.form);
  again?.setCustomValidity(again.value === event.target.form.elements[again.dataset.same].value ? '' : say(again.dataset.differs));
});
// A choice that is sent at once, such as a role.
document.addEventListener('change', (event) => {
  const select = event.target.closest('select[data-send]');
  if (select) trying(() => act(select, { [select.name]: select.value })).then(() => refresh(true)); // shows what holds, also after a refusal
});
