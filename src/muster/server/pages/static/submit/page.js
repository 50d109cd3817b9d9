// The page that submits a job. Form and job file are two views of one JobFile: whichever changes, the other follows.
import { $, h, phrase } from '../dom.js';
import { run as path, send, toast, trying } from '../api.js';
import { ask } from '../dialog.js';
import { Changes } from './changes.js';
import { Check } from './check.js';
import { Code } from './code.js';
import { JobFile } from './document.js';
import { Form } from './form.js';
import { Resources } from './resources.js';
import { Templates } from './templates.js';
import { onEdit, show } from './editor.js';

const setup = JSON.parse($('[data-submit]').dataset.setup);
const file = new JobFile();
let clean = ''; // the job file that need not be kept
let empty = ''; // the job file before anything was said
let leaving = false;

/** Something changed: the other view, the figures and the check follow. */
const changed = (whole = false) => {
  show(file.text);
  if (whole) form.sync();
  code.sync();
  resources.sync();
  changes.sync();
  check.soon(asking);
};
const form = new Form(file, changed);
const code = new Code(file, setup.code, changed);
const resources = new Resources(file, setup, changed);
const changes = new Changes(file, code, changed);
const check = new Check(form, ({ nodes, devices }) => {
  file.set(['nodes'], nodes > 1 ? String(nodes) : '');
  file.set(['devices'], devices > 1 ? String(devices) : '');
  changed(true);
}, () => file.text === empty);

onEdit((text) => {
  file.read(text);
  form.rest(Boolean(file.problem));
  if (file.problem) check.soon(asking); // the server says what is wrong, as the command line does
  else changed(true);
});

/** The job as the API takes it. */
const body = async (secrets) => ({ job: file.text || '{}', file: 'job.yaml', code: await code.sent(), secrets });
const given = () => form.rows.secrets.values;
// Values of secrets are sent once: with the job itself.
const asking = async () => (code.busy ? { wait: 'submit.uploading' } : body(Object.fromEntries(Object.keys(given()).map((name) => [name, '-']))));

// Submitting.
const button = $('[data-send]');
const key = () => [...crypto.getRandomValues(new Uint32Array(4))].map((one) => one.toString(16)).join('');
const submission = ({ job, code: digest, secrets, file: name }) => {
  const headers = { 'Idempotency-Key': key() };
  if (!setup.clone || !digest) return send('POST', '/api/v1/runs', { job, file: name, code: digest, secrets }, { headers });
  const place = { project: file.get('project') ?? resources.project?.name ?? null, pool: file.get('pool') ?? null };
  return send('POST', `${path(setup.clone.run)}/rerun`, { job, code: digest, secrets, ...place }, { headers });
};
button.addEventListener('click', () => trying(async () => {
  if (check.problems.length) { check.goTo(check.problems[0]); return; }
  if (code.busy) { toast('submit.uploading'); return; }
  button.disabled = true;
  $('[data-sending]').replaceChildren(phrase('submit.sending'));
  try {
    const answer = await submission(await body(given()));
    const made = await answer.json();
    leaving = true;
    location.assign(`/jobs/${encodeURIComponent(made.run)}`);
  } catch (error) {
    button.disabled = false;
    $('[data-sending]').replaceChildren();
    if (!error.details?.problems) throw error;
    check.soon(asking);
  }
}));
addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !$('dialog[open]')) { event.preventDefault(); button.click(); } });

const isDirty = () => file.text !== clean || code.busy || code.choice === 'upload' || Object.keys(given()).length > 0;
addEventListener('beforeunload', (event) => { if (!leaving && isDirty()) event.preventDefault(); });
document.addEventListener('language', () => check.soon(asking));

/** Begins with a text, and fields to be set in it. */
const begin = (text, fields = {}) => {
  file.read(text);
  form.rest(Boolean(file.problem));
  if (file.problem) { show(text); check.soon(asking); return; }
  file.unfold();
  for (const [name, value] of Object.entries(fields)) file.set([name], value ?? '');
  clean = file.text;
  empty = text ? '' : file.text;
  form.type = 'one';
  changed(true);
};

// Templates.
const templates = new Templates(setup, {
  open: (one) => trying(async () => {
    if (isDirty() && !await ask({ heading: 'submit.replace', text: 'submit.replace.text', action: 'submit.replace.do', values: one, danger: false })) return;
    await useTemplate(one);
  }),
  project: () => resources.project,
  name: () => file.get('name') ?? '',
  text: () => file.text,
  code: () => (code.choice === 'none' ? null : code.sent()),
});
const useTemplate = async (one) => {
  begin(one.job);
  if (setup.project && !file.get('project')) { file.set(['project'], setup.project); clean = file.text; }
  $('[data-origin]').replaceChildren(phrase('submit.from_template', { name: one.name }));
  if (one.code) await code.take(`/api/v1/templates/${encodeURIComponent(one.id)}/code`, 'submit.code.of_template', one.name);
  changes.begin(one.name);
  changed(true);
};

const start = async () => {
  const { clone } = setup;
  if (clone) {
    begin(clone.text, clone.fields);
    $('[data-origin]').replaceChildren(phrase('submit.from_run'), ' ', h('a', { href: `/jobs/${encodeURIComponent(clone.run)}` }, clone.run));
    if (clone.has_code) await code.take(`${path(clone.run)}/code`, 'submit.code.of_run', clone.name);
    changes.begin(clone.name);
    changed(true);
    return;
  }
  const project = setup.projects.find((one) => one.name === setup.project) ?? setup.projects[0];
  const usual = setup.project || setup.projects.length === 1 ? project.template : null;
  if (setup.template || usual) {
    try { await useTemplate(await templates.find(setup.template || usual, project.name)); return; } catch (error) { toast('shell.problem', { reason: error.message }, true); }
  }
  begin('', { project: setup.project });
};
trying(start);
