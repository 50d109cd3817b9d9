// The cluster: pools and queue are made anew when runs change, and now and then for the health of nodes; the queue takes rows that are dragged.
import { $, atMost } from '../dom.js';
import { post, run as path, trying } from '../api.js';
import { refresh } from '../actions.js';
import { watchRuns } from '../live.js';

const EVERY = 30000; // milliseconds between two looks: checks of nodes raise no event
let dragged = null;
const look = () => { if (!document.hidden && !dragged) refresh(); };
watchRuns(atMost(2000, look));
setInterval(look, EVERY);
document.addEventListener('visibilitychange', look);

const part = $('[data-part]');
const row = (event) => event.target.closest?.('tr[draggable]');
part.addEventListener('dragstart', (event) => { dragged = row(event); if (dragged) event.dataTransfer.effectAllowed = 'move'; });
part.addEventListener('dragend', () => { dragged = null; });
part.addEventListener('dragover', (event) => {
  const over = row(event);
  if (dragged && over && over !== dragged && over.dataset.pool === dragged.dataset.pool) event.preventDefault();
});
part.addEventListener('drop', (event) => {
  const [moved, target] = [dragged, row(event)];
  dragged = null;
  if (!moved || !target) return;
  event.preventDefault();
  trying(async () => { await post(`${path(moved.dataset.queued)}/move`, { position: Number(target.dataset.position) }); await refresh(); });
});
