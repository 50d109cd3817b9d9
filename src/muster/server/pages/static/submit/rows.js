// Fields of a job that are lists of entries: parameters, inputs and outputs, variables, secrets, services.
import { $, $$, h, label, pair, phrase, say } from '../dom.js';
import { isMapping } from './document.js';
import { browse } from './store.js';

const data = (value) => (isMapping(value) ? { url: value.url ?? '', access: value.access === 'env' ? 'env' : '' } : { url: value, access: '' });
const ofData = ({ url, access }) => (access ? { url, access } : url);
// How an entry is shown, and what it becomes: `value` of the mapping, or for secrets a name of the list.
const KINDS = {
  parameters: { what: 'submit.parameters', second: 'submit.row.value' },
  env: { what: 'submit.env', second: 'submit.row.value' },
  inputs: { what: 'submit.inputs', second: 'submit.row.url', data: true },
  outputs: { what: 'submit.outputs', second: 'submit.row.url', data: true },
  secrets: { what: 'submit.secrets', second: 'submit.row.value', secret: true },
  endpoints: { what: 'submit.ports', second: 'submit.row.port', except: ['tensorboard', 'jupyter'] },
};

export class Rows {
  constructor(name, file, changed) {
    Object.assign(this, { name, file, changed, kind: KINDS[name], place: $(`[data-rows-of="${name}"]`) });
    if (!this.place) return;
    $(`[data-add="${name}"]`).addEventListener('click', () => { this.#add('', '').querySelector('input').focus(); this.#number(); });
    this.place.addEventListener('input', () => this.#write());
  }

  /** Names and values of the rows that have a name, the first of each name. */
  get pairs() {
    const found = new Map();
    for (const row of $$('.row-of', this.place)) {
      const name = $('[data-key]', row).value.trim();
      const twice = name !== '' && found.has(name);
      $('.wrong', row).hidden = !twice;
      if (name && !twice) found.set(name, this.kind.data ? ofData({ url: $('[data-value]', row).value.trim(), access: $('[data-access]', row).value }) : $('[data-value]', row).value);
    }
    return [...found];
  }

  /** Values of secrets, which no job file has. */
  get values() { return Object.fromEntries(this.pairs.filter(([, value]) => value !== '')); }

  /** Shows what the job file says, unless the rows say it already. */
  sync() {
    if (!this.place) return;
    const now = this.#written();
    if (JSON.stringify(this.#made()) === JSON.stringify(now)) return;
    const kept = this.kind.secret ? this.values : {};
    this.place.replaceChildren();
    for (const [name, value] of now) this.#add(name, this.kind.secret ? kept[name] ?? '' : value);
    this.#number();
  }

  #written() {
    const found = this.file.get(this.name);
    if (this.kind.secret) return (Array.isArray(found) ? found : found ? String(found).split(',') : []).map((name) => [String(name).trim(), '']);
    return isMapping(found) ? Object.entries(found).filter(([name, value]) => !this.kind.except?.includes(name) && (this.kind.data || !isMapping(value))) : [];
  }

  #made() { return this.kind.secret ? this.pairs.map(([name]) => [name, '']) : this.pairs; }

  #write() {
    const pairs = this.#made();
    if (this.kind.secret) this.file.set([this.name], pairs.map(([name]) => name));
    else {
      const whole = this.file.get(this.name);
      const others = isMapping(whole) ? Object.entries(whole).filter(([name, value]) => this.kind.except?.includes(name) || (!this.kind.data && isMapping(value))) : [];
      this.file.entries(this.name, [...others, ...pairs]);
    }
    this.changed();
  }

  #add(name, value) {
    const { kind } = this;
    const key = h('input', { 'data-key': true, value: name, placeholder: kind.secret ? 'WANDB_API_KEY' : '', spellcheck: 'false', autocapitalize: 'none' });
    const second = h('input', { 'data-value': true, value: kind.data ? data(value).url : String(value), type: kind.secret ? 'password' : 'text', autocomplete: kind.secret ? 'new-password' : 'off', placeholder: kind.data ? 'obs://bucket/path' : '', spellcheck: 'false', autocapitalize: 'none' });
    const access = kind.data ? h('select', { 'data-access': true }, ...['', 'env'].map((one) => label(h('option', { value: one }), 'text', `submit.access.${one || 'parameter'}`))) : null;
    if (access) { access.value = data(value).access; label(access, 'aria-label', 'submit.access'); }
    const find = kind.data ? h('button', { type: 'button', onclick: async () => { const url = await browse(second.value); if (url) { second.value = url; this.#write(); } find.focus(); } }, phrase('submit.browse')) : null;
    const remove = h('button', { type: 'button', class: 'plain', onclick: () => { const next = row.nextElementSibling ?? row.previousElementSibling; row.remove(); this.#write(); this.#number(); (next ? $('input', next) : $(`[data-add="${this.name}"]`)).focus(); } }, '✕');
    const row = h('div', { class: `row-of${kind.data ? ' data' : ''}` }, key, second, access, find, remove, h('p', { class: 'wrong', hidden: true }, phrase('submit.twice')), h('p', { class: 'wrong', hidden: true, 'data-wrong-entry': true }));
    this.place.append(row);
    return row;
  }

  /** Says in words what each control is. */
  #number() {
    $$('.row-of', this.place).forEach((row, at) => {
      const entry = pair('submit.entry', { number: at + 1 });
      const words = (part) => ({ what: pair(this.kind.what), part: pair(part), number: at + 1 });
      $('[data-key]', row).setAttribute('aria-label', say('submit.of', words('submit.row.name')));
      $('[data-value]', row).setAttribute('aria-label', say('submit.of', words(this.kind.second)));
      $('button.plain', row).setAttribute('aria-label', say('submit.remove', { name: entry }));
      const find = $('button:not(.plain)', row);
      find?.setAttribute('aria-label', say('submit.browse.one', { name: entry }));
    });
  }

  speak() { if (this.place) this.#number(); }

  /** The place for the mistakes of an entry; null where it is not here. */
  entry(name) {
    const row = this.place && $$('.row-of', this.place).find((one) => $('[data-key]', one).value.trim() === name);
    return row ? { note: $('[data-wrong-entry]', row), control: $('[data-value]', row) } : null;
  }
}
export const NAMES = Object.keys(KINDS);
