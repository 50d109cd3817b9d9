// The endpoints of a job: each is opened in a page of its own. On their tab there is a terminal, too (`place.js`).
import { $, $$ } from '../dom.js';
import { send, toast, trying } from '../api.js';
import { id, job } from '../job.js';
import { openEndpoint } from './terminal.js';
import { terminalPlace } from './place.js';

const PAUSE = 2000; // milliseconds; nodes write how their endpoints stand, and no event tells of it

/** Puts a piece that the server made anew in place of the old one; the focus and the chosen rank stay. */
const put = (old, fresh) => {
  const focused = old.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const rank = $('[data-rank]', old)?.value;
  old.replaceWith(document.adoptNode(fresh));
  const field = $('[data-rank]', fresh);
  if (field && rank !== undefined) field.value = rank;
  if (focused) $(`[data-key="${CSS.escape(focused)}"]`, fresh)?.focus();
  fresh.dispatchEvent(new Event('rendered', { bubbles: true }));
};

const shown = new Map($$('[data-piece]').map((piece) => [piece.dataset.piece, piece.outerHTML]));
let tag = '';
const refresh = async () => {
  const answer = await send('GET', `/jobs/${encodeURIComponent(id)}/endpoints?part=1`, undefined, { headers: { 'If-None-Match': tag } });
  if (answer.status === 304) return;
  tag = answer.headers.get('ETag') ?? '';
  const made = new DOMParser().parseFromString(await answer.text(), 'text/html'); // of this server's own templates
  for (const piece of $$('[data-piece]')) {
    const fresh = $(`[data-piece="${piece.dataset.piece}"]`, made);
    if (!fresh || shown.get(piece.dataset.piece) === fresh.outerHTML) continue;
    shown.set(piece.dataset.piece, fresh.outerHTML);
    put(piece, fresh);
  }
};
const follow = async () => {
  if (!document.hidden) {
    try { await refresh(); } catch { /* the page says that the server is away */ }
  }
  if (job.dataset.ended !== 'true') setTimeout(follow, PAUSE);
};
if (job.dataset.ended !== 'true') setTimeout(follow, PAUSE);
document.addEventListener('job-ended', () => trying(refresh));

const copy = async (button) => {
  const line = $('[data-line]', button.parentElement);
  try {
    await navigator.clipboard.writeText(line.textContent);
  } catch { // a page without TLS
    getSelection().selectAllChildren(line);
    document.execCommand('copy');
  }
  toast('once.copied');
};

job.addEventListener('click', (event) => {
  const opener = event.target.closest('[data-open-endpoint]');
  if (opener) trying(() => openEndpoint(id, opener.dataset.openEndpoint));
  const copier = event.target.closest('[data-copy]');
  if (copier) trying(() => copy(copier));
});

if ($('[data-shell]')) terminalPlace($('[data-shell]'), id);
