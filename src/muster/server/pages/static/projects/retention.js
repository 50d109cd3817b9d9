// The page of a project: what its retention would delete, with the values that stand in the form.
import { $, $$, bytes, h, phrase, time } from '../dom.js';
import { get, trying } from '../api.js';
import '../actions.js';

const SHOWN = 50;
const part = $('[data-part]');

const preview = async () => {
  const words = new URLSearchParams($$('[data-sets]', part).map((field) => ['set', `${field.dataset.sets}=${field.value}`]));
  const place = $('[data-retention-found]', part);
  place.replaceChildren(h('p', { class: 'note' }, phrase('retention.looking')));
  const found = await get(`/api/v1/projects/${encodeURIComponent(part.dataset.project)}/retention?${words}`);
  const rows = found.items.slice(0, SHOWN).map((one) => h('tr', {}, h('td', {}, h('a', { href: `/jobs/${encodeURIComponent(one.run)}` }, h('bdi', {}, one.name))), h('td', {}, phrase(`retention.${one.what}`)), h('td', { class: 'number' }, bytes(one.bytes)), h('td', { class: 'moment' }, time(one.ended)), h('td', {}, one.why)));
  place.replaceChildren(
    h('p', { 'data-doomed': found.count }, phrase('retention.found', { count: found.count, size: bytes(found.bytes) })),
    rows.length ? h('div', { class: 'scroll' }, h('table', { class: 'data' }, h('tbody', {}, ...rows))) : '',
  );
};
part.addEventListener('click', (event) => {
  if (!event.target.closest('[data-preview-retention]')) return;
  trying(preview).finally(() => $('[data-retention-found] .note', part)?.remove());
});
