// The files of a job: directories are listed, pictures and text are shown, everything can be downloaded.
import { $, bytes, h, pair, phrase, say, time } from './dom.js';
import { get, run as path, send, trying } from './api.js';
import { id } from './job.js';
import { TEXTS } from './texts.js';

const [crumbs, table, note, none, preview] = ['[data-crumbs]', '[data-listing]', '[data-note]', '[data-none]', '[data-preview]'].map((one) => $(one));
const body = $('tbody', table);
const PICTURES = /\.(png|jpe?g|gif|webp)$/i;
const fileUrl = (name, show) => `${path(id)}/file?${new URLSearchParams({ path: name, ...(show ? { show: '1' } : {}) })}`;
const here = (name) => `${location.pathname}${name ? `?${new URLSearchParams({ path: name })}` : ''}`;

/** A directory of the run's own by what it is for. */
const rootName = (name) => {
  const [, attempt, , node, kind] = name.split('/');
  if (name === 'shared') return pair('files.root.shared');
  const key = `files.root.${kind}`;
  return kind && key in TEXTS ? pair('files.root.of', { what: pair(key), node, attempt }) : [name, name];
};
const both = ([english, chinese]) => (english === chinese ? [english] : [h('span', { class: 'en', lang: 'en' }, english), h('span', { class: 'zh', lang: 'zh-CN' }, chinese)]);
const rootLength = (name) => (name.startsWith('shared') ? 1 : 5);

const link = (name, ...content) => h('a', { href: here(name), onclick: (event) => { if (event.ctrlKey || event.metaKey) return; event.preventDefault(); history.pushState(null, '', here(name)); show(name); } }, ...content);

const trail = (name) => {
  const parts = name.split('/').filter(Boolean);
  const root = parts.slice(0, rootLength(name)).join('/');
  const nodes = [link('', phrase('files.all'))];
  if (name) nodes.push(' / ', link(root, ...both(rootName(root))));
  parts.slice(rootLength(name)).forEach((part, at) => nodes.push(' / ', link(parts.slice(0, rootLength(name) + at + 1).join('/'), h('bdi', {}, part))));
  crumbs.replaceChildren(...nodes);
};

const row = (entry, isRoot) => {
  const shown = isRoot ? both(rootName(entry.path)) : [h('bdi', {}, entry.name)];
  const openable = entry.path !== null && entry.kind !== 'other';
  const name = openable ? link(entry.path, ...shown, entry.kind === 'folder' && !isRoot ? '/' : '') : h('span', {}, ...shown);
  const isFile = entry.kind === 'file' && entry.path !== null;
  return h('tr', { 'data-row': entry.path ?? '' },
    h('td', {}, name, entry.kind === 'other' ? [' ', h('span', { class: 'note' }, phrase('files.other'))] : null),
    h('td', { class: 'number' }, isFile ? bytes(entry.size) : ''),
    h('td', { class: 'moment' }, entry.changed ? time(entry.changed) : ''),
    h('td', {}, isFile ? h('a', { class: 'button', href: fileUrl(entry.path), 'aria-label': say('files.download.one', { name: entry.name }) }, phrase('files.download')) : null));
};

const list = async (name) => {
  const found = await get(`${path(id)}/files?${new URLSearchParams({ path: name })}`);
  preview.hidden = true;
  table.hidden = !found.entries.length;
  none.hidden = Boolean(name) || found.entries.length > 0;
  body.replaceChildren(...found.entries.map((entry) => row(entry, !name)));
  note.replaceChildren(...(name && !found.entries.length ? [phrase('files.empty')] : found.left_out ? [phrase('files.left_out', { count: found.left_out })] : []));
};

const look = async (name) => {
  table.hidden = true;
  none.hidden = true;
  note.replaceChildren();
  const short = name.split('/').pop();
  const get1 = h('p', { class: 'actions' }, h('a', { class: 'button', href: fileUrl(name) }, phrase('files.download')));
  preview.hidden = false;
  if (PICTURES.test(name)) { preview.replaceChildren(h('img', { src: fileUrl(name, true), alt: short }), get1); return; }
  const answer = await send('GET', fileUrl(name, true));
  const text = await answer.text();
  const size = Number(answer.headers.get('X-Muster-Size'));
  const shown = answer.headers.get('X-Muster-Binary') === '1' ? h('p', { class: 'note' }, phrase('files.binary')) : h('pre', { tabindex: '0', 'aria-label': say('files.preview', { name: short }) }, text);
  const cut = size > (256 << 10) && answer.headers.get('X-Muster-Binary') !== '1' ? h('p', { class: 'note' }, phrase('files.cut', { shown: bytes(256 << 10), size: bytes(size) })) : null;
  preview.replaceChildren(...[cut, shown, get1].filter(Boolean));
};

const show = (name) => trying(async () => {
  trail(name);
  const parent = name.slice(0, name.lastIndexOf('/'));
  if (name.split('/').length <= rootLength(name)) { await list(name); return; }
  const { entries } = await get(`${path(id)}/files?${new URLSearchParams({ path: parent })}`);
  const entry = entries.find((one) => one.path === name);
  if (entry?.kind === 'file') await look(name);
  else await list(name);
});
const current = () => new URLSearchParams(location.search).get('path') ?? '';
addEventListener('popstate', () => show(current()));
show(current());
