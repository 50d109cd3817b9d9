// The form: each control shows a field of the job file, and writes it.
import { $, $$, say } from '../dom.js';
import { NAMES, Rows } from './rows.js';

const TRAINING = ['boot', 'command', 'framework', 'per', 'nodes', 'parameters']; // fields that environments do not have

export class Form {
  #kept = {}; // fields of the other type, for who changes the mind

  constructor(file, changed) {
    Object.assign(this, { file, changed, type: 'one', program: 'command' });
    this.rows = Object.fromEntries(NAMES.map((name) => [name, new Rows(name, file, () => changed())]));
    for (const control of $$('[data-field]')) control.addEventListener('input', () => this.#write(control));
    for (const radio of $$('[name=type]')) radio.addEventListener('change', () => this.#choose(radio.value));
    for (const button of $$('[data-program]')) button.addEventListener('click', () => this.#run(button.dataset.program));
    for (const box of $$('[data-endpoint]')) box.addEventListener('change', () => this.#endpoint(box));
    $('[data-tensorboard]')?.addEventListener('input', () => this.#endpoint($('[data-endpoint=tensorboard]')));
    document.addEventListener('language', () => Object.values(this.rows).forEach((one) => one.speak()));
    $('[data-form]').addEventListener('submit', (event) => event.preventDefault());
  }

  /** Shows what the job file says. */
  sync() {
    for (const control of $$('[data-field]')) this.#show(control);
    for (const one of Object.values(this.rows)) one.sync();
    const { file } = this;
    if (file.get('kind') === 'environment') this.type = 'environment';
    else if (Number(file.get('nodes') ?? 1) > 1) this.type = 'distributed';
    else if (this.type === 'environment') this.type = 'one';
    for (const radio of $$('[name=type]')) radio.checked = radio.value === this.type;
    if (file.get('boot') !== undefined) this.program = 'boot';
    else if (file.get('command') !== undefined) this.program = 'command';
    for (const button of $$('[data-program]')) button.setAttribute('aria-pressed', String(button.dataset.program === this.program));
    for (const part of $$('[data-program-part]')) part.hidden = part.dataset.programPart !== this.program;
    for (const part of $$('[data-distributed]')) part.hidden = this.type !== 'distributed' && (file.get('nodes') ?? '1') === '1';
    for (const part of $$('[data-trains]')) part.hidden = this.type === 'environment';
    for (const part of $$('[data-environment]')) part.hidden = this.type !== 'environment';
    $('[data-of=per]').hidden = Boolean(file.get('framework')) && file.get('framework') !== 'command';
    const endpoints = file.get('endpoints') ?? {};
    for (const box of $$('[data-endpoint]')) box.checked = endpoints[box.dataset.endpoint] !== undefined && endpoints[box.dataset.endpoint] !== 'false';
    const folder = $('[data-tensorboard]');
    if (folder && document.activeElement !== folder) folder.value = typeof endpoints.tensorboard === 'string' && !['true', 'false'].includes(endpoints.tensorboard) ? endpoints.tensorboard : '';
    if (folder) folder.hidden = !$('[data-endpoint=tensorboard]').checked;
    const more = $('[data-more]');
    if ($$('[data-field]', more).some((one) => file.get(one.dataset.field) !== undefined)) more.open = true;
  }

  /** Leaves the form alone while the job file cannot be read. */
  rest(is) {
    $('[data-fields]').disabled = is;
    $('[data-resting]').hidden = !is;
  }

  #show(control) {
    const value = this.file.get(control.dataset.field);
    const odd = typeof value === 'object' && value !== null;
    control.disabled = odd;
    if (control.type === 'checkbox') { control.checked = value === 'true'; return; }
    if (control === document.activeElement && this.#read(control) === (value ?? '')) return;
    if (control.dataset.field === 'pool') return; // its choices are made with it
    if (odd) { control.placeholder = say('submit.in_yaml'); control.value = ''; return; }
    const shown = control.tagName === 'TEXTAREA' ? (value ?? '').replace(/\n$/, '') : value ?? '';
    if (control.tagName === 'SELECT' && shown && ![...control.options].some((one) => one.value === shown)) control.append(new Option(shown, shown));
    control.value = shown;
    if (control.tagName === 'SELECT' && control.selectedIndex < 0) control.selectedIndex = 0;
  }

  #read(control) {
    if (control.type === 'checkbox') return control.checked ? 'true' : '';
    return control.tagName === 'TEXTAREA' ? control.value.replace(/\s+$/, '') : control.value.trim();
  }

  #write(control) {
    const text = this.#read(control);
    this.file.set([control.dataset.field], control.tagName === 'TEXTAREA' && text.includes('\n') ? `${text}\n` : text);
    this.changed(control.tagName === 'SELECT' || control.type === 'checkbox');
  }

  #choose(type) {
    const { file } = this;
    const was = this.type;
    this.type = type;
    if (type === 'environment') {
      for (const name of TRAINING) { this.#kept[name] = file.get(name); file.set([name], ''); }
      file.set(['kind'], 'environment');
      if (!file.get('endpoints') && $('[data-endpoint=jupyter]')) file.set(['endpoints'], { jupyter: 'true' });
    } else if (was === 'environment') {
      file.set(['kind'], '');
      file.set(['idle_limit'], '');
      for (const [name, value] of Object.entries(this.#kept)) if (value !== undefined) file.set([name], value);
    }
    if (type === 'one') file.set(['nodes'], '');
    if (type === 'distributed' && Number(file.get('nodes') ?? 1) < 2) file.set(['nodes'], '2');
    this.changed(true);
  }

  #run(program) {
    const [other, text] = program === 'boot' ? ['command', this.file.get('command')] : ['boot', this.file.get('boot')];
    this.program = program;
    this.#kept[other] = text;
    this.file.set([other], '');
    if (this.#kept[program]) this.file.set([program], this.#kept[program]);
    this.changed(true);
    $(`#f-${program}`).focus();
  }

  #endpoint(box) {
    const folder = $('[data-tensorboard]').value.trim();
    const value = box.dataset.endpoint === 'tensorboard' && folder ? folder : 'true';
    this.file.set(['endpoints', box.dataset.endpoint], box.checked ? value : '');
    this.changed(true);
  }
}
