// The start page: its lists are made anew by the server when a run of the viewer's changes.
import { $, atMost } from './dom.js';
import { send, trying } from './api.js';
import { watchRuns } from './live.js';
import { replaceWith } from './fragments.js';

const part = $('[data-home]');
const refresh = atMost(400, () => trying(async () => {
  if (!$('.columns2', part)) { location.reload(); return; }
  await replaceWith(part, await send('GET', '/?parts=1'));
}));
watchRuns((run) => { if (run.user === document.body.dataset.user) refresh(); });
