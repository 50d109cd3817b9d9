// What differs from the run or template with which the form began.
import { $, h, phrase, say } from '../dom.js';
import { JobFile } from './document.js';

const SHOWN = 120; // letters of a value
const short = (text) => (text.length > SHOWN ? `${text.slice(0, SHOWN - 1)}…` : text);

export class Changes {
  constructor(file, code, changed) { Object.assign(this, { file, code, changed, name: '', start: null }); }

  /** Notes how it is now. */
  begin(name) {
    this.name = name;
    this.start = new JobFile(this.file.text);
    this.sync();
  }

  sync() {
    const place = $('[data-changes]');
    place.hidden = !this.start;
    if (!this.start) return;
    const [before, now] = [this.start.flat(), this.file.flat()];
    const names = [...new Set([...before.keys(), ...now.keys()])].filter((name) => before.get(name)?.text !== now.get(name)?.text);
    const value = (text) => (text === undefined ? h('span', { class: 'quiet' }, phrase('submit.none')) : h('code', {}, short(text)));
    const rows = names.map((name) => h('li', {}, h('strong', {}, h('bdi', {}, name)), ' ', h('del', {}, value(before.get(name)?.text)), ' → ', h('ins', {}, value(now.get(name)?.text)), ' ', this.#back(name, (before.get(name) ?? now.get(name)).path)));
    if (this.code.isOther) rows.push(h('li', {}, h('strong', {}, phrase('submit.changed.code')), ' ', h('button', { type: 'button', class: 'link', 'aria-label': say('submit.changed.back', { name: say('submit.changed.code') }), onclick: () => { this.code.choose(this.code.first, true); } }, phrase('submit.back'))));
    $('[data-changes-title]').replaceChildren(phrase(rows.length ? 'submit.changed' : 'submit.unchanged', { name: this.name }));
    $('[data-changed]').replaceChildren(...rows);
  }

  #back(name, path) {
    return h('button', { type: 'button', class: 'link', 'aria-label': say('submit.changed.back', { name }), onclick: () => { this.file.set(path, this.start.get(...path)); this.changed(true); } }, phrase('submit.back'));
  }
}
