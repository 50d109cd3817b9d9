// Which code a job runs: a folder that is sent, one of the store, that of a run or a template, or none.
import { $, $$, bytes, h, phrase } from '../dom.js';
import { post } from '../api.js';
import { browse } from './store.js';
import { empty, upload } from './upload.js';
import { ofDrop, ofInput, onlyCode } from './folder.js';

export class Code {
  #nothing = null; // the digest of no code
  #sending = null;

  constructor(file, limits, changed) {
    Object.assign(this, { file, limits, changed, choice: 'none', digest: null, given: null, first: 'none', busy: false });
    for (const button of $$('[data-code]')) button.addEventListener('click', () => this.choose(button.dataset.code, true));
    const input = $('[data-folder]');
    input.addEventListener('change', () => { const found = ofInput(input.files); input.value = ''; if (found.files.length) this.#take(Promise.resolve(found)); });
    $('[data-browse-code]').addEventListener('click', async () => { const url = await browse(this.file.get('code') ?? ''); if (url) { this.file.set(['code'], url); this.changed(true); } });
    this.#dropping($('[data-drop]'));
  }

  /** What a submission says of the code; null while it is sent, or where the job names a URL. */
  async sent() {
    if (this.choice === 'none') { this.#nothing ??= empty(); try { return await this.#nothing; } catch (error) { this.#nothing = null; throw error; } }
    return this.choice === 'url' ? null : this.digest;
  }

  get isOther() { return this.given !== null && (this.choice !== this.first || (this.choice === 'upload')); }

  choose(choice, byHand = false) {
    this.choice = choice;
    for (const button of $$('[data-code]')) button.setAttribute('aria-pressed', String(button.dataset.code === choice));
    for (const part of $$('[data-code-part]')) part.hidden = part.dataset.codePart !== choice;
    if (choice !== 'upload') { this.#sending?.abort(); this.busy = false; }
    if (choice === 'given') this.digest = this.given.digest;
    if (choice === 'upload') this.digest = this.uploaded ?? null;
    if (byHand && choice !== 'url' && this.file.get('code')) this.file.set(['code'], '');
    if (byHand) this.changed(true);
    if (byHand && choice === 'url') $('#f-code').focus();
  }

  /** Follows the job file: a URL in it is the code. */
  sync() {
    const written = this.file.get('code');
    if (typeof written === 'string' && /^(obs|s3):\/\//.test(written)) { if (this.choice !== 'url') this.choose('url'); } else if (this.choice === 'url' && document.activeElement !== $('#f-code') && !written) this.choose(this.given ? 'given' : 'none');
  }

  /** Takes the code that a run or a template has. */
  async take(path, key, name) {
    const button = $('[data-code=given]');
    button.hidden = false;
    const note = $('[data-code-given]');
    try {
      const { code } = await post(path);
      this.given = { digest: code };
      note.replaceChildren(phrase(key, { name }));
      this.choose('given');
    } catch (error) {
      button.hidden = true;
      $('[data-code-note]').replaceChildren(phrase('submit.code.gone', { reason: error.message }));
      this.choose('upload');
    }
    this.first = this.choice;
  }

  #dropping(area) {
    const over = (event, is) => { event.preventDefault(); area.classList.toggle('over', is); };
    for (const target of [area, $('[data-code-choice]')]) {
      target.addEventListener('dragover', (event) => over(event, true));
      target.addEventListener('dragleave', (event) => over(event, false));
      target.addEventListener('drop', (event) => { over(event, false); if (event.dataTransfer.items.length) this.#take(ofDrop(event.dataTransfer, this.limits.files)); });
    }
    addEventListener('dragover', (event) => { if ([...event.dataTransfer.types].includes('Files')) { event.preventDefault(); if (this.choice !== 'upload') this.choose('upload'); } });
    addEventListener('drop', (event) => event.preventDefault()); // beside the field: the page stays
  }

  async #take(found) {
    const [bar, note] = [$('[data-progress]'), $('[data-code-note]')];
    const say = (...content) => note.replaceChildren(...content);
    this.choose('upload', true);
    this.#sending?.abort();
    const { signal } = this.#sending = new AbortController();
    this.uploaded = this.digest = null;
    this.busy = true;
    bar.hidden = false;
    bar.removeAttribute('value');
    this.changed();
    try {
      const { folder, files: all } = await found;
      if (!crypto.subtle) throw new Error('insecure');
      const files = await onlyCode(all, this.limits);
      const size = files.reduce((sum, [, file]) => sum + file.size, 0);
      const odd = files.find(([path]) => path.isWellFormed?.() === false);
      if (odd) { say(phrase('submit.code.names', { name: odd[0] })); return; }
      if (!files.length) { say(phrase('submit.code.empty')); return; }
      if (files.length > this.limits.files || size > this.limits.bytes) { say(phrase('submit.code.large', { files: this.limits.files, size: bytes(this.limits.bytes), file: this.limits.file })); return; }
      const sent = await upload(files, signal, (done) => {
        bar.value = done.of ? (0.3 * done.read) / done.of : 0.3 + 0.7 * (done.total ? done.sent / done.total : 1);
        say(done.of ? phrase('submit.code.reading', { done: done.read, all: done.of }) : phrase('submit.code.sending', { done: bytes(done.sent), all: bytes(done.total) }));
      });
      this.uploaded = this.digest = sent.code;
      const left = all.length - files.length;
      say(h('bdi', {}, phrase('submit.code.ready', { folder, files: files.length, size: bytes(size), sent: sent.sent })), left ? h('span', {}, ' · ', phrase('submit.code.ignored', { count: left, file: this.limits.file })) : '');
      $('#boot-files').replaceChildren(...files.filter(([path]) => path.endsWith('.py')).slice(0, 200).map(([path]) => h('option', { value: path })));
    } catch (error) {
      if (error.name === 'AbortError') return;
      say(error.message === 'insecure' ? phrase('submit.code.insecure') : phrase('shell.problem', { reason: error.message }));
    } finally {
      if (!signal.aborted) { this.busy = false; bar.hidden = true; this.changed(true); }
    }
  }
}
