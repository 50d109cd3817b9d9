// What the server says of the job: mistakes at their fields and lines, or whether it would start now.
import { $, $$, h, isChinese, phrase, settled } from '../dom.js';
import { send } from '../api.js';
import { goTo, mark } from './editor.js';

const said = $('[data-said]');
const list = $('[data-problems]');
const verdict = $('[data-verdict]');

/** Names between backticks as code. */
export const marked = (text) => text.split('`').map((part, at) => (at % 2 ? h('code', {}, part) : h('bdi', {}, part)));
const sentence = ({ message, hint }) => (hint ? `${message}${isChinese() ? '；' : '; '}${hint}` : message);
const whole = ({ field, message, hint }) => sentence({ message: !field ? message : message.startsWith('`') ? `\`${field}: ${message.slice(1)}` : `\`${field}\` ${message}`, hint });

export class Check {
  #asked = null;

  constructor(form, offered, isNew) {
    Object.assign(this, { form, offered, isNew, problems: [] });
    this.later = settled(350, (asking) => this.#ask(asking));
  }

  /** Asks soon; `asking` gives what is to be sent, or nothing while that is not known. */
  soon(asking) {
    this.#asked?.abort();
    verdict.setAttribute('aria-busy', 'true');
    this.later(asking);
  }

  async #ask(asking) {
    const { signal } = this.#asked = new AbortController();
    try {
      if (this.isNew()) { this.#begin(); return; }
      const body = await asking();
      if (signal.aborted) return;
      if (body.wait) { this.#tell('wait', [phrase(body.wait)]); return; }
      const answer = await send('POST', `/api/v1/runs/check?language=${isChinese() ? 'zh' : 'en'}`, body, { signal });
      this.#good(await answer.json());
    } catch (error) {
      if (error.name !== 'AbortError') this.#refused(error);
    } finally {
      if (!signal.aborted) verdict.removeAttribute('aria-busy');
    }
  }

  /** Nobody is told of mistakes before writing something. */
  #begin() {
    this.#show([]);
    this.problems = [{ field: 'command', line: 1 }];
    this.#tell('', [phrase('submit.begin')]);
  }

  #good(found) {
    this.#show([]);
    const warnings = found.warnings.map((text) => h('li', { class: 'unknown' }, ...marked(text)));
    const { pool } = found;
    if (found.starts_now) this.#tell('good', [phrase('submit.starts', { pool })], warnings);
    else if (found.waits) this.#tell('wait', [phrase('submit.waits', { why: found.waits })], warnings);
    else this.#tell('', [phrase('submit.unknown', { pool })], warnings);
  }

  #refused(error) {
    const { problems, nearest } = error.details ?? {};
    if (problems) {
      this.#show(problems);
      this.#tell('bad', [problems.length === 1 ? phrase('submit.wrong.one') : phrase('submit.wrong', { count: problems.length })], problems.map((one) => this.#item(one)));
      return;
    }
    this.#show([]);
    const offer = nearest ? [h('li', {}, h('button', { type: 'button', onclick: () => this.offered(nearest) }, phrase('submit.nearest', nearest)))] : [];
    if (error.status === 400) this.#tell('bad', nearest ? [phrase('submit.impossible')] : marked(error.message), nearest ? [h('li', {}, ...marked(error.message)), ...offer] : []);
    else this.#tell('bad', [phrase('submit.unchecked', { reason: error.message })]);
  }

  #tell(kind, content, items = []) {
    verdict.dataset.kind = kind;
    said.replaceChildren(h('p', {}, ...content));
    list.replaceChildren(...items);
  }

  #place(field) {
    if (field === null) return null;
    const [name, ...rest] = field.split('.');
    const inner = rest.join('.') || /\[.*\]$/.exec(field)?.[0] || '';
    const plain = name.replace(/\[.*$/, '');
    const exact = $(`[data-wrong="${CSS.escape(field)}"]`);
    if (exact) return { note: exact, control: $(`[data-field="${CSS.escape(field)}"]`) ?? $('input, textarea', exact.parentElement) };
    const entry = inner && this.form.rows[plain]?.entry(rest.join('.'));
    if (entry) return entry;
    const note = $(`[data-wrong="${CSS.escape(plain)}"]`);
    return note && { note, control: $(`[data-field="${CSS.escape(plain)}"]`) ?? $(`[data-rows-of="${CSS.escape(plain)}"] input`) ?? $(`[data-add="${CSS.escape(plain)}"]`) };
  }

  /** Puts mistakes at their fields and lines. */
  #show(problems) {
    this.problems = problems;
    for (const note of $$('[data-wrong], [data-wrong-entry]')) { note.hidden = true; note.replaceChildren(); }
    for (const control of $$('[data-form] [aria-invalid]')) control.removeAttribute('aria-invalid');
    for (const one of problems) {
      const place = this.#place(one.field);
      if (!place) continue;
      if (place.note.childNodes.length) place.note.append(h('br'));
      place.note.append(...marked(sentence(one)));
      place.note.hidden = false;
      if (place.note.closest('details')) place.note.closest('details').open = true;
      place.control?.setAttribute('aria-invalid', 'true');
    }
    mark(problems.map((one) => ({ line: one.line, text: whole(one) })));
  }

  /** A mistake with ways to its field and its line. */
  #item(one) {
    const line = one.line ? [' ', h('button', { type: 'button', class: 'link line', onclick: () => goTo(one.line) }, phrase('submit.line', { line: one.line }))] : [];
    return h('li', {}, h('button', { type: 'button', class: 'link', onclick: () => this.goTo(one) }, ...marked(whole(one))), ...line);
  }

  goTo(one) {
    const control = this.#place(one.field)?.control;
    if (control && control.offsetParent) control.focus();
    else goTo(one.line ?? 1);
  }
}
