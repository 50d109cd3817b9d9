// The job file as text: a field with numbers of lines, of which those with mistakes are marked.
import { $, h, settled } from '../dom.js';

const field = $('[data-yaml]');
const gutter = $('[data-gutter]');
let wrong = new Map(); // messages by line

const number = () => {
  const count = field.value.split('\n').length;
  gutter.replaceChildren(...Array.from({ length: count }, (_, at) => h('span', { class: wrong.has(at + 1) ? 'bad' : null, title: wrong.get(at + 1)?.join('\n') ?? null }, String(at + 1))));
  gutter.scrollTop = field.scrollTop;
};
field.addEventListener('scroll', () => { gutter.scrollTop = field.scrollTop; });

export const shown = () => field.value;

export const show = (text) => {
  if (field.value === text) return;
  const top = field.scrollTop;
  field.value = text;
  field.scrollTop = top;
  number();
};

/** Puts the cursor at the beginning of a line. */
export const goTo = (line) => {
  const start = field.value.split('\n').slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const end = field.value.indexOf('\n', start);
  field.focus();
  field.setSelectionRange(start, end < 0 ? field.value.length : end);
  field.scrollTop = Math.max(0, (line - 4) * 20);
};

/** Marks lines that have mistakes. */
export const mark = (found) => {
  wrong = new Map();
  for (const { line, text } of found) if (line) wrong.set(line, [...(wrong.get(line) ?? []), text]);
  number();
  field.setAttribute('aria-invalid', String(found.length > 0));
};

/** Calls back with the text once nobody types for a moment. */
export const onEdit = (changed) => {
  const later = settled(150, () => changed(field.value));
  field.addEventListener('input', () => { number(); later(); });
  field.addEventListener('keydown', (event) => { // Tab leaves the field, as everywhere; Enter keeps the indentation
    if (event.key !== 'Enter' || event.isComposing || event.ctrlKey || event.metaKey) return;
    const before = field.value.slice(0, field.selectionStart);
    const indent = /^ */.exec(before.slice(before.lastIndexOf('\n') + 1))[0];
    if (!indent) return;
    event.preventDefault();
    field.setRangeText(`\n${indent}`, field.selectionStart, field.selectionEnd, 'end');
    field.dispatchEvent(new Event('input', { bubbles: true }));
  });
};
