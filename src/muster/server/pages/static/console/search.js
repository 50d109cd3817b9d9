// The search in the logs of a run, which the server does: lines appear as they are found, and it can be cancelled.
import { $, bytes, h, label, phrase } from '../dom.js';
import { lines, run as path, send, trying } from '../api.js';

/** Finds lines; `scope` is the query of one log or none, `hit` gets each. Returns how it ended. */
export const find = async (id, query, hit, searched = () => {}, signal = undefined) => {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== ''));
  const answer = await send('GET', `${path(id)}/search?${words}`, undefined, { signal });
  for await (const one of lines(answer)) {
    if (one.hit) hit(one.hit);
    if (one.searched !== undefined) searched(one.searched);
    if (one.end) return one.end;
  }
  return { complete: false, hits: 0 };
};

/** The form and the list of what was found; `open` is called with the hit that is chosen. Returns what else searches there. */
export const searchForm = (id, open) => {
  const [form, field, exact, go, cancel] = ['[data-find]', '[data-find] [data-search]', '[data-exact]', '[data-go]', '[data-cancel]'].map((one) => $(one));
  const [box, text, list] = ['[data-found]', '[data-found-text]', '[data-hits]'].map((one) => $(one));
  let running = null;
  label(field, 'placeholder', 'console.search');
  const told = (key, values) => text.replaceChildren(phrase(key, values));
  const entry = (hit) => h('li', {}, h('button', { type: 'button', onclick: () => open(hit) },
    h('span', { class: 'quiet' }, `${hit.log[2]}  `), h('bdi', {}, plain(hit.before), h('mark', {}, plain(hit.match)), plain(hit.after))));
  const busy = (on) => { go.hidden = on; cancel.hidden = !on; };

  /** Searches with each query in turn until one finds something, tells how far it is, and can be cancelled. */
  const search = async (...queries) => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    let [hits, size, end] = [0, 0, null];
    const found = [];
    list.replaceChildren();
    box.hidden = false;
    busy(true);
    const progress = () => told('console.search.going', { hits, size: bytes(size) });
    const hit = (one) => { hits += 1; found.push(one); list.append(entry(one)); progress(); };
    progress();
    try {
      for (const query of queries) {
        const before = size;
        if (!hits) end = await find(id, query, hit, (count) => { size = before + count; progress(); }, mine.signal);
      }
      told(end.complete ? 'console.search.done' : 'console.search.partly', { hits });
    } catch (error) {
      if (error.name !== 'AbortError') { told('console.search.cancelled', { hits }); throw error; }
      if (running === mine) told('console.search.cancelled', { hits });
      return null;
    } finally { if (running === mine) busy(false); }
    return found;
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (field.value) trying(() => search({ text: field.value, exact: exact.checked ? 'true' : '' }));
    else box.hidden = true;
  });
  cancel.addEventListener('click', () => running?.abort());
  return { search, close: () => { box.hidden = true; } };
};

const plain = (text) => text.replace(/\x1b\[[0-?]*[ -\/]*[@-~]/g, '').replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '·');
