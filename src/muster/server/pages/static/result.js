// The report of a job: it takes a second or longer to compute, so that the page comes first and the report afterwards.
import { $, h, phrase } from './dom.js';
import { send } from './api.js';
import { id } from './job.js';
import { replaceWith } from './fragments.js';

const place = $('[data-report]');

const load = async () => {
  place.setAttribute('aria-busy', 'true');
  place.replaceChildren(h('p', { class: 'note', role: 'status' }, phrase('result.going'), ' ', h('span', { 'data-from': Date.now() / 1000 })));
  try {
    await replaceWith(place, await send('GET', `/jobs/${encodeURIComponent(id)}/result?part=1`));
    await import('./report.js'); // which looks for what is there when it is loaded
  } catch (error) {
    const again = h('button', { type: 'button', onclick: load }, phrase('result.again'));
    place.replaceChildren(h('p', { class: 'problems', role: 'alert' }, phrase('result.none', { reason: error.message })), h('p', {}, again));
  }
  place.removeAttribute('aria-busy');
};
if ('load' in place.dataset) load();
else document.addEventListener('job-ended', load);
