// The metrics of a job: charts by rank, by node or of the mean; while it runs they are asked for every few seconds.
import { $, $$, h, phrase } from '../dom.js';
import { run as path, send, trying } from '../api.js';
import { id, job } from '../job.js';
import { drawAll } from './plot.js';

const EVERY = 4000; // milliseconds between two looks at a run that goes on: what ranks record raises no event
const SOON = 1000; // between two looks while long logs are read
const query = new URLSearchParams(location.search);
const plots = { recorded: new Map(), sampled: new Map() };
const [status, none, attempts, select] = ['[data-status]', '[data-none]', '[data-attempts]', '[data-attempt]'].map((one) => $(one));
let by = ['rank', 'node', 'mean'].includes(query.get('by')) ? query.get('by') : 'mean';
let over = query.get('over') === 'time' ? 'time' : 'step';
let hasSteps = over === 'time'; // what ranks reported has steps, so that there is a choice
let tag = '';
let last = null;
let soon = 0;

const draw = () => {
  if (!last) return;
  for (const group of ['recorded', 'sampled']) {
    const section = $(`[data-group=${group}]`);
    section.hidden = !last[group].length;
    drawAll($('.plots', section), plots[group], last[group]);
  }
  hasSteps ||= last.recorded.some((chart) => chart.x === 'step');
  $('[data-overs]').hidden = !hasSteps;
  none.hidden = last.recorded.length + last.sampled.length > 0;
  attempts.hidden = last.attempts.length < 2;
  if (select.options.length !== last.attempts.length) select.replaceChildren(...last.attempts.map((number) => h('option', { value: number }, number)));
  select.value = last.attempt;
};

const refresh = () => trying(async () => {
  const words = new URLSearchParams({ by, over });
  if (query.get('attempt')) words.set('attempt', query.get('attempt'));
  const answer = await send('GET', `${path(id)}/series?${words}`, undefined, { headers: { 'If-None-Match': tag } });
  if (answer.status !== 304) {
    tag = answer.headers.get('ETag') ?? '';
    last = await answer.json();
    draw();
  }
  status.replaceChildren();
  if (last?.reading) {
    status.replaceChildren(phrase('metrics.reading'));
    clearTimeout(soon);
    soon = setTimeout(refresh, SOON);
  }
});
const show = () => {
  for (const button of $$('[data-by]')) button.setAttribute('aria-pressed', String(button.dataset.by === by));
  for (const button of $$('[data-over]')) button.setAttribute('aria-pressed', String(button.dataset.over === over));
  query.set('by', by);
  query.set('over', over);
  history.replaceState(null, '', `${location.pathname}?${query}`);
  tag = '';
  status.replaceChildren(phrase('metrics.loading'));
  refresh();
};
for (const button of $$('[data-by]')) button.addEventListener('click', () => { by = button.dataset.by; show(); });
for (const button of $$('[data-over]')) button.addEventListener('click', () => { over = button.dataset.over; show(); });
select.addEventListener('change', () => { query.set('attempt', select.value); show(); });
for (const name of ['language', 'theme']) document.addEventListener(name, () => requestAnimationFrame(draw));
addEventListener('resize', () => { for (const group of Object.values(plots)) for (const plot of group.values()) plot.resize(); });
document.addEventListener('job-ended', refresh);
const again = () => setTimeout(async () => {
  if (!document.hidden && job.dataset.ended !== 'true') await refresh();
  if (job.dataset.ended !== 'true') again();
}, EVERY);
show();
again();
