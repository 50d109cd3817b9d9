// Templates: open one, save the form as one, share it, have a project begin with it.
import { $, h, phrase, say } from '../dom.js';
import { Refused, get, post, send, toast, trying } from '../api.js';
import { ask } from '../dialog.js';

const ROUTE = '/api/v1/templates';
const at = (id) => `${ROUTE}/${encodeURIComponent(id)}`;
const whose = (one) => (one.scope === 'project' ? phrase('submit.template.project', { project: one.project }) : phrase(`submit.template.${one.scope}`));
const shown = (title, ...content) => {
  const heading = h('h2', { id: 'templates-title' }, phrase(title));
  const dialog = h('dialog', { class: 'templates', 'aria-labelledby': 'templates-title' }, heading, ...content);
  document.body.append(dialog);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.showModal();
  return dialog;
};

export class Templates {
  /** `page` has `open(template)`, `project()`, `text()`, `code()` and `name()`. */
  constructor(setup, page) {
    Object.assign(this, { setup, page });
    $('[data-templates]')?.addEventListener('click', () => trying(() => this.#list()));
    $('[data-save]')?.addEventListener('click', () => this.#save());
  }

  /** Opens the template of an id or a name. */
  async find(key, project) { return get(`${at(key)}${project ? `?${new URLSearchParams({ project })}` : ''}`); }

  async #list() {
    const { items } = await get(`${ROUTE}?limit=500`);
    const mayDelete = (one) => one.scope !== 'all' || this.setup.administrator;
    const row = (one) => h('li', {},
      h('button', { type: 'button', class: 'link', onclick: () => { dialog.close(); this.page.open(one); } }, h('bdi', {}, one.name)), ' ',
      h('span', { class: 'quiet' }, whose(one), one.description ? [' · ', h('bdi', {}, one.description)] : null), ' ',
      mayDelete(one) ? h('button', { type: 'button', class: 'plain', 'aria-label': say('submit.template.delete', one), onclick: () => { dialog.close(); trying(() => this.#delete(one)); } }, '✕') : null);
    const close = h('button', { type: 'button', onclick: () => dialog.close() }, phrase('shell.close'));
    const dialog = shown('submit.templates', items.length ? h('ul', { class: 'plain entries' }, ...items.map(row)) : h('p', {}, phrase('submit.templates.none')), h('p', { class: 'actions' }, close));
  }

  async #delete(one) {
    if (!await ask({ heading: 'submit.template.delete.ask', text: 'submit.template.delete.text', action: 'submit.delete', values: { name: one.name }, name: one.name })) return;
    await send('DELETE', at(one.id));
    toast('submit.template.deleted', { name: one.name });
  }

  #save() {
    const project = this.page.project();
    const scopes = ['own', ...(project ? ['project'] : []), ...(this.setup.administrator ? ['all'] : [])];
    const name = h('input', { id: 'save-name', value: this.page.name(), required: true, pattern: '[A-Za-z0-9][A-Za-z0-9._\\-]*', spellcheck: 'false' });
    const scope = h('select', { id: 'save-scope' }, ...scopes.map((one) => h('option', { value: one }, one === 'project' ? say('submit.template.project', { project: project.name }) : say(`submit.template.${one}`))));
    const about = h('input', { id: 'save-about', maxlength: '500' });
    const isDefault = h('input', { type: 'checkbox' });
    const line = h('label', { class: 'line', hidden: true }, isDefault, ' ', phrase('submit.save.default'));
    scope.addEventListener('change', () => { line.hidden = scope.value !== 'project' || !project.manager; });
    const wrong = h('p', { class: 'wrong', role: 'alert' });
    const close = h('button', { type: 'button', onclick: () => dialog.close() }, phrase('shell.cancel'));
    const form = h('form', { onsubmit: async (event) => {
      event.preventDefault();
      try {
        await this.#keep({ name: name.value.trim(), scope: scope.value, description: about.value, project: scope.value === 'project' ? project.name : null }, !line.hidden && isDefault.checked);
        dialog.close();
      } catch (error) { wrong.textContent = error.message; }
    } },
    h('label', { for: 'save-name' }, phrase('submit.save.name')), name,
    h('label', { for: 'save-scope' }, phrase('submit.save.scope')), scope,
    h('label', { for: 'save-about' }, phrase('submit.save.description')), about, line, wrong,
    h('p', { class: 'actions' }, h('button', { class: 'primary' }, phrase('submit.save.do')), close));
    const dialog = shown('submit.save', form);
    name.focus();
  }

  async #keep(given, isDefault) {
    const [job, code] = [this.page.text(), await this.page.code()];
    try { await post(ROUTE, { ...given, job, code }); } catch (error) {
      if (!(error instanceof Refused) || error.status !== 409 || !await ask({ heading: 'submit.save', text: 'submit.save.replace', action: 'submit.save.replace.do' })) throw error;
      const { items } = await get(`${ROUTE}?limit=500`);
      const old = items.find((one) => one.name === given.name && one.scope === given.scope && (one.project ?? null) === given.project);
      await send('PATCH', at(old.id), { job, code: code ?? '', description: given.description });
    }
    if (isDefault) await this.#begin(given.project, given.name);
    toast('submit.saved', { name: given.name });
  }

  /** Has submissions of a project begin with a template. */
  async #begin(project, template) {
    const path = `/api/v1/projects/${encodeURIComponent(project)}`;
    const answer = await send('GET', path);
    const { settings } = await answer.json();
    await send('PATCH', path, { settings: { ...(settings ?? {}), template } }, { headers: { 'If-Match': answer.headers.get('ETag') } });
  }
}
