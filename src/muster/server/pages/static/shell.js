// The frame around all pages: language, colours, times in the viewer's zone, keyboard shortcuts.
import { $, $$, apply, cookie, durationText, h, isChinese, localTime, phrase, root, zone } from './dom.js';
import { listDialog } from './dialog.js';

const speak = (language) => {
  root.lang = language;
  for (const button of $$('[data-language]')) button.setAttribute('aria-pressed', String(button.dataset.language === language));
  for (const element of $$('[data-say]')) apply(element);
  const title = $('title');
  document.title = isChinese() ? title.dataset.zh : title.dataset.en;
  document.dispatchEvent(new Event('language'));
};
$('.languages').hidden = false;
for (const button of $$('[data-language]')) {
  button.addEventListener('click', () => {
    cookie('muster-language', button.dataset.language);
    try { localStorage.setItem('muster-language', button.dataset.language); } catch { /* a private window */ }
    speak(button.dataset.language);
  });
}

const theme = $('[data-theme-choice]');
theme.hidden = false;
theme.addEventListener('change', () => {
  root.dataset.theme = theme.value;
  cookie('muster-theme', theme.value);
  document.dispatchEvent(new Event('theme'));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => document.dispatchEvent(new Event('theme')));

/** Shows the times below an element in the viewer's zone, and durations that grow. */
export const localise = (within = document) => {
  for (const element of $$('time[datetime]', within)) {
    if (element.dataset.shown) continue;
    element.dataset.shown = '1';
    element.textContent = localTime(Date.parse(element.dateTime) / 1000, element.hasAttribute('data-seconds'));
    element.title = zone();
  }
  tick(within);
};
const tick = (within = document) => {
  const now = Date.now() / 1000;
  for (const element of $$('[data-from]', within)) element.replaceChildren(...durationText((Number(element.dataset.to) || now) - Number(element.dataset.from)));
};
localise();
setInterval(() => { if (!document.hidden) tick(); }, 1000);
document.addEventListener('rendered', (event) => localise(event.target));

// Shortcuts: `?` lists them, `/` goes to the search, `g` and a letter to a section, j and k through a list.
const typing = (target) => target.closest('input, textarea, select, [contenteditable], [role=textbox], dialog');
let waiting = 0;
const sections = () => $$('nav.sections [data-shortcut]');
const go = (key) => sections().find((link) => link.dataset.shortcut === key)?.click();
const rows = () => $$('[data-rows] [data-row]');
const step = (by) => {
  const all = rows();
  const now = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, now + by))];
  next?.querySelector('a')?.focus();
};
const help = () => {
  const line = (keys, text) => [h('dt', {}, ...keys.flatMap((key, index) => [index ? ' ' : '', h('kbd', {}, key)])), h('dd', {}, text)];
  const entries = [
    line(['?'], phrase('shell.shortcuts.help')),
    $('[data-search]') && line(['/'], phrase('shell.shortcuts.search')),
    ...sections().map((link) => line(['g', link.dataset.shortcut], [...link.cloneNode(true).childNodes])),
    rows().length && line(['j', 'k'], phrase('shell.shortcuts.rows')),
    rows().length && line(['Enter'], phrase('shell.shortcuts.open')),
    $('[data-rows] input[type=checkbox]') && line(['x'], phrase('shell.shortcuts.choose')),
  ];
  listDialog('shell.shortcuts', h('dl', { class: 'facts shortcuts' }, ...entries.filter(Boolean).flat()));
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const pending = waiting && Date.now() - waiting < 1500;
  waiting = 0;
  if (pending && /^[a-z]$/.test(event.key)) return go(event.key);
  const actions = {
    '?': help,
    '/': () => $('[data-search]')?.focus(),
    g: () => { waiting = Date.now(); },
    j: () => step(1),
    k: () => step(-1),
    x: () => document.activeElement.closest('[data-row]')?.querySelector('input[type=checkbox]')?.click(),
  };
  if (!(event.key in actions)) return undefined;
  event.preventDefault();
  return actions[event.key]();
});
