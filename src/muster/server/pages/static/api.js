// Requests to the server's API with the session of the browser; changes come with what only pages of this session know.
import { $, h, phrase } from './dom.js';

export class Refused extends Error {
  constructor(status, reason, details = {}) { super(reason); this.status = status; this.details = details; }
}

/** Headers of a request that changes something. */
export const csrf = () => ({ 'X-CSRF-Token': $('meta[name=csrf-token]')?.content ?? '' });

/** Sends a request; returns the answer. Throws Refused with the reason that the server gave. */
export const send = async (method, path, body, { headers = {}, ...options } = {}) => {
  const own = { ...(method === 'GET' ? {} : csrf()), ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) };
  const content = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(path, { method, headers: { ...own, ...headers }, body: content, ...options });
  if (answer.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  if (!answer.ok && answer.status !== 304) {
    let details = {};
    try { details = await answer.json(); } catch { /* not JSON */ }
    throw new Refused(answer.status, details.reason ?? answer.statusText, details);
  }
  return answer;
};

export const get = async (path, options) => (await send('GET', path, undefined, options)).json();
export const post = async (path, body = {}) => (await send('POST', path, body)).json();
export const run = (id) => `/api/v1/runs/${encodeURIComponent(id)}`;

/** Tells the viewer something for a while. */
export const toast = (key, values = {}, bad = false) => {
  const note = h('p', { class: bad ? 'toast bad' : 'toast' }, phrase(key, values));
  $('[data-toasts]').append(note);
  setTimeout(() => note.remove(), bad ? 12000 : 5000);
};

/** Does something and tells why it was not possible. */
export const trying = async (action) => {
  try { return await action(); } catch (error) {
    if (error.name !== 'AbortError') toast('shell.problem', { reason: error.message }, true);
    return undefined;
  }
};

export { lines } from './json_lines.js';
