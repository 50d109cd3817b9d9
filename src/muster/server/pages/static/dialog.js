// Dialogs: a list, a question, a question that asks for a name. They are native, so that Escape and the focus work.
import { h, label, phrase } from './dom.js';

const shown = (dialog) => {
  document.body.append(dialog);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.showModal();
  return dialog;
};

const framed = (heading, values, ...content) => {
  const title = h('h2', { id: `dialog-${Math.random().toString(36).slice(2)}` }, phrase(heading, values));
  return h('dialog', { 'aria-labelledby': title.id }, title, ...content);
};

export const listDialog = (heading, content) => {
  const close = h('button', { type: 'button', onclick: () => dialog.close() }, phrase('shell.close'));
  const dialog = framed(heading, {}, content, h('p', { class: 'actions' }, close));
  return shown(dialog);
};

/** Asks; resolves to true if the answer is yes. `name` has to be typed where it is given. */
export const ask = ({ heading, text, action, values = {}, name = '', danger = true }) => new Promise((resolve) => {
  const field = name ? label(h('input', { autocomplete: 'off', spellcheck: 'false' }), 'aria-label', 'shell.name_field') : null;
  const yes = h('button', { class: danger ? 'danger' : '', disabled: Boolean(name) }, phrase(action, values));
  const no = h('button', { type: 'button', onclick: () => dialog.close('') }, phrase('shell.cancel'));
  field?.addEventListener('input', () => { yes.disabled = field.value !== name; });
  const form = h('form', { method: 'dialog' },
    text ? h('p', {}, phrase(text, values)) : null,
    field ? h('p', {}, phrase('shell.type_name', { name })) : null, field,
    h('p', { class: 'actions' }, yes, no));
  yes.value = 'yes';
  const dialog = framed(heading, values, form);
  dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'));
  shown(dialog);
  (field || no).focus();
});

/** Asks for a number; resolves to it, or to null. */
export const askNumber = ({ heading, text, action, values = {}, value, least, most }) => new Promise((resolve) => {
  const field = h('input', { type: 'number', required: true, min: least, max: most, step: 1, value });
  const yes = h('button', { class: 'primary' }, phrase(action, values));
  yes.value = 'yes';
  const no = h('button', { type: 'button', onclick: () => dialog.close('') }, phrase('shell.cancel'));
  const form = h('form', { method: 'dialog' }, h('label', {}, phrase(text, values), field), h('p', { class: 'actions' }, yes, no));
  const dialog = framed(heading, values, form);
  dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes' ? Number(field.value) : null));
  shown(dialog);
  field.select();
});
