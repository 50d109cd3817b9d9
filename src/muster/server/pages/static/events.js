// The events of a job: while it goes on they are asked for every few seconds, because nodes write them and tell nobody.
import { $ } from './dom.js';
import { send, trying } from './api.js';
import { id, job } from './job.js';

const EVERY = 2000; // milliseconds
let tag = '';

const refresh = async () => {
  const answer = await send('GET', `/jobs/${encodeURIComponent(id)}/events?part=1`, undefined, { headers: { 'If-None-Match': tag } });
  if (answer.status === 304) return;
  tag = answer.headers.get('ETag') ?? '';
  const made = new DOMParser().parseFromString(await answer.text(), 'text/html'); // of this server's own templates
  const [old, fresh] = [$('[data-events]'), $('[data-events]', made)];
  const isFocused = old.contains(document.activeElement);
  const scrolled = $('.scroll', old)?.scrollLeft ?? 0;
  old.replaceWith(document.adoptNode(fresh));
  if ($('.scroll', fresh)) $('.scroll', fresh).scrollLeft = scrolled;
  if (isFocused) $('[tabindex]', fresh)?.focus();
  fresh.dispatchEvent(new Event('rendered', { bubbles: true }));
};
const follow = async () => {
  if (!document.hidden) {
    try { await refresh(); } catch { /* the page says that the server is away */ }
  }
  if (job.dataset.ended !== 'true') setTimeout(follow, EVERY);
};
if (job.dataset.ended !== 'true') setTimeout(follow, EVERY);
document.addEventListener('job-ended', () => trying(refresh));
