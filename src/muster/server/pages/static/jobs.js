// The list of jobs: states change in place, new jobs appear, several can be stopped at once, columns are chosen.
import { $, $$, atMost, cookie, durationText, phrase, stateMark } from './dom.js';
import { post, run as path, send, toast, trying } from './api.js';
import { ask } from './dialog.js';
import { replaceRows } from './fragments.js';
import { watchRuns } from './live.js';

const ENDED = ['succeeded', 'failed', 'stopped', 'lost', 'damaged'];
const table = $('table[data-jobs]');
const body = $('[data-rows]');
const filter = $('[data-filter]');
const query = new URLSearchParams(location.search);

// Filters: a choice shows at once, words with Enter.
const submit = () => {
  const kept = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value));
  location.assign(`/jobs?${kept}`);
};
for (const select of $$('select', filter)) {
  select.addEventListener('change', () => {
    if (select.matches('[data-sort]')) filter.elements.order.value = select.selectedOptions[0].dataset.order;
    submit();
  });
}
const states = $('[data-states]');
const ticked = () => $$('input', states).map((box) => box.checked).join();
const before = ticked();
states.addEventListener('toggle', () => { if (!states.open && ticked() !== before) submit(); });
document.addEventListener('click', (event) => { if (states.open && !states.contains(event.target)) states.open = false; });
filter.addEventListener('submit', (event) => { event.preventDefault(); submit(); });

for (const box of $$('[data-column]')) {
  box.addEventListener('change', () => {
    table?.classList.toggle(`hide-${box.dataset.column}`, !box.checked);
    cookie('muster-columns', $$('[data-column]:not(:checked)').map((one) => one.dataset.column).join('.') || 'none');
  });
}

// Several at once.
const bar = $('[data-bulk-bar]');
const chosen = () => $$('input[name=run]:checked', body);
const count = () => {
  const number = chosen().length;
  bar.hidden = !number;
  $('[data-chosen]').replaceChildren(phrase('jobs.chosen', { count: number }));
};
if (table) {
  body.addEventListener('change', count);
  $('[data-all]').addEventListener('change', (event) => { for (const box of $$('input[name=run]', body)) box.checked = event.target.checked; count(); });
  $('[data-stop]').addEventListener('click', () => trying(async () => {
    const boxes = chosen();
    const yes = await ask({ heading: 'jobs.stop.ask', text: 'jobs.stop.text', action: 'jobs.stop', values: { count: boxes.length } });
    if (!yes) return;
    for (const box of boxes) { await post(`${path(box.value)}/stop`); box.checked = false; }
    count();
    toast('jobs.stop.done', { count: boxes.length });
  }));
}

// Live: rows that are here change in place; a page that begins with the newest takes new ones in.
const update = (row, run) => {
  $('[data-cell=state]', row).replaceChildren(stateMark(run.state));
  if (run.started && run.state !== 'pending') { // of one that was preempted the server knows how long it ran
    const time = document.createElement('span');
    time.dataset.from = run.started;
    if (run.ended) time.dataset.to = run.ended;
    time.append(...durationText((run.ended ?? Date.now() / 1000) - run.started));
    $('[data-cell=time]', row).replaceChildren(time);
  }
  if (ENDED.includes(run.state) && $('input', row)) { $('input', row).remove(); count(); }
};
const takeIn = atMost(1500, () => trying(async () => {
  if (!body) { location.reload(); return; }
  query.set('rows', '1');
  await replaceRows(body, await send('GET', `/jobs?${query}`), ['reason', 'time']);
}));
const isFirst = !query.has('cursor') && (query.get('order') ?? 'desc') === 'desc' && ['submitted', 'changed'].includes(query.get('sort') ?? 'submitted');
const mayBelong = (run) => (query.get('scope') ?? 'mine') !== 'mine' || run.user === document.body.dataset.user;
watchRuns((run) => {
  const row = body && $(`[data-row="${CSS.escape(run.run)}"]`, body);
  if (row) { update(row, run); takeIn(); } // the server has its reason in both languages
  else if (isFirst && mayBelong(run) && run.created > Date.now() / 1000 - 600) takeIn();
});
