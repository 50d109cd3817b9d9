// The head of a job's page on all tabs: its state changes in place; it can be stopped and deleted.
import { $, atMost, h } from './dom.js';
import { post, run as path, send, toast, trying } from './api.js';
import { rendered } from './console/ansi.js';
import { ask, askNumber } from './dialog.js';
import { watchRuns } from './live.js';
import { prepareRanks } from './rank_grid.js';

export const job = $('[data-job]');
export const id = job.dataset.job;
const { name } = job.dataset;
const ENDED = ['succeeded', 'failed', 'stopped', 'lost', 'damaged'];

const colour = (within) => {
  const tail = $('[data-ansi]', within);
  if (tail) tail.replaceChildren(...tail.textContent.split('\n').flatMap((line) => [...rendered(line), '\n']));
};
colour(document);
prepareRanks(document);

// The server renders the overview anew; other tabs take its head alone.
const refresh = atMost(250, () => trying(async () => {
  const attempt = new URLSearchParams(location.search).get('attempt');
  const answer = await send('GET', `/jobs/${encodeURIComponent(id)}?part=1${attempt && job.dataset.tab === 'overview' ? `&attempt=${encodeURIComponent(attempt)}` : ''}`);
  const made = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const [old, fresh] = job.dataset.tab === 'overview' ? [$('[data-part]'), h('div', { 'data-part': true }, ...made.body.childNodes)] : [$('[data-head]'), $('[data-head]', made)];
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const again = focused && (focused.getAttribute('href') ? `a[href="${CSS.escape(focused.getAttribute('href'))}"]` : ['[data-stop]', '[data-pause], [data-resume]', '[data-priority]'].find((one) => focused.matches(one)));
  const scrolled = $('[data-ranks]', old)?.scrollTop;
  old.replaceWith(document.adoptNode(fresh));
  prepareRanks(fresh, scrolled === undefined);
  if (scrolled !== undefined && $('[data-ranks]', fresh)) $('[data-ranks]', fresh).scrollTop = scrolled;
  if (again) $(again, fresh)?.focus();
  colour(fresh);
  fresh.dispatchEvent(new Event('rendered', { bubbles: true }));
}));

watchRuns((run) => {
  if (run.run !== id) return;
  refresh();
  if (ENDED.includes(run.state) && job.dataset.ended !== 'true') {
    job.dataset.ended = 'true';
    document.dispatchEvent(new Event('job-ended'));
  }
});

job.addEventListener('click', (event) => {
  if (event.target.closest('[data-stop]')) trying(stop);
  if (event.target.closest('[data-delete]')) trying(remove);
  if (event.target.closest('[data-pause]')) trying(pause);
  if (event.target.closest('[data-resume]')) trying(resume);
  const ranking = event.target.closest('[data-priority]');
  if (ranking) trying(() => prioritise(ranking.dataset));
});
const stop = async () => {
  if (!await ask({ heading: 'job.stop.ask', text: 'job.stop.text', action: 'job.stop', values: { name } })) return;
  await post(`${path(id)}/stop`);
  toast('job.stop.done');
};
const pause = async () => {
  const holds = $('[data-head]').dataset.state !== 'pending'; // its devices, and what is not in a checkpoint is lost
  if (holds && !await ask({ heading: 'job.pause.ask', text: 'job.pause.text', action: 'queue.pause', values: { name }, danger: false })) return;
  await post(`${path(id)}/pause`);
  toast('job.pause.done');
  refresh();
};
const resume = async () => {
  await post(`${path(id)}/resume`);
  toast('job.resume.done');
  refresh();
};
const prioritise = async ({ priority: value, least, most }) => {
  const chosen = await askNumber({ heading: 'job.priority.title', text: 'job.priority.field', action: 'job.priority.set', values: { name, least, most }, value, least, most });
  if (chosen === null) return;
  await send('PATCH', path(id), { priority: chosen });
  toast('job.priority.done', { priority: chosen });
  refresh();
};
const remove = async () => {
  if (!await ask({ heading: 'job.delete.ask', text: 'job.delete.text', action: 'job.delete', values: { name }, name })) return;
  await send('DELETE', path(id));
  location.assign('/jobs');
};
