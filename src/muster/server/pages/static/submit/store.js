// The store in a dialog: buckets, directories of keys, objects. What is chosen becomes a URL.
import { $, bytes, h, label, phrase, time } from '../dom.js';
import { get } from '../api.js';

const URL_OF_STORE = /^(obs|s3):\/\/([^/]+)\/?(.*)$/;

/** Resolves to the URL of a directory or an object, or to nothing. It begins where `url` points. */
export const browse = (url = '') => new Promise((resolve) => {
  const [, scheme = 'obs', first = '', rest = ''] = URL_OF_STORE.exec(url) ?? [];
  const crumbs = label(h('nav', { class: 'crumbs' }), 'aria-label', 'submit.store.path');
  const list = h('ul', { class: 'plain entries', tabindex: '-1' });
  const note = h('p', { class: 'note', role: 'status' });
  const more = h('button', { type: 'button', hidden: true }, phrase('submit.store.more'));
  const use = h('button', { type: 'button', class: 'primary', hidden: true }, phrase('submit.store.use'));
  const close = h('button', { type: 'button', onclick: () => dialog.close() }, phrase('shell.cancel'));
  const title = h('h2', { id: 'store-title' }, phrase('submit.store'));
  const dialog = h('dialog', { class: 'store', 'aria-labelledby': 'store-title' }, title, crumbs, note, list, h('p', { class: 'actions' }, more, use, close));
  let chosen = '';

  const button = (go, ...content) => h('button', { type: 'button', class: 'link', onclick: go }, ...content);
  const choose = (bucket, key) => { chosen = `${scheme}://${bucket}/${key}`; dialog.close(); };
  const trail = (bucket, prefix) => {
    const parts = prefix.split('/').filter(Boolean);
    const nodes = [button(buckets, phrase('submit.store.buckets'))];
    if (bucket) nodes.push(' / ', button(() => open(bucket, ''), h('bdi', {}, bucket)));
    parts.forEach((part, at) => nodes.push(' / ', button(() => open(bucket, `${parts.slice(0, at + 1).join('/')}/`), h('bdi', {}, part))));
    crumbs.replaceChildren(...nodes);
  };
  const tell = (...content) => note.replaceChildren(...content);
  const trying = async (action) => { try { tell(); await action(); return true; } catch (error) { tell(phrase('shell.problem', { reason: error.message })); return false; } };

  const buckets = () => trying(async () => {
    trail('', '');
    use.hidden = true;
    more.hidden = true;
    const { items } = await get('/api/v1/buckets?limit=500');
    if (!items.length) tell(phrase('submit.store.none'));
    list.replaceChildren(...items.map((one) => h('li', {}, button(() => open(one.name, ''), h('bdi', {}, one.name)), one.project ? h('span', { class: 'quiet' }, ` ${one.project}`) : null)));
    ($('button', list) ?? close).focus();
  });
  const entry = (bucket, prefix, one) => {
    const name = h('bdi', {}, one.key.slice(prefix.length));
    const isFolder = one.size === null;
    return h('li', {}, button(() => (isFolder ? open(bucket, one.key) : choose(bucket, one.key)), name), isFolder ? null : h('span', { class: 'quiet' }, ' ', bytes(one.size), ' · ', time(one.changed)));
  };
  const open = (bucket, prefix, after = '') => trying(async () => {
    trail(bucket, prefix);
    use.hidden = true; // until it is the directory that is shown
    more.hidden = true;
    const query = new URLSearchParams({ prefix, after });
    const found = await get(`/api/v1/buckets/${encodeURIComponent(bucket)}/objects?${query}`);
    const made = found.items.map((one) => entry(bucket, prefix, one));
    if (after) list.append(...made);
    else list.replaceChildren(...made);
    if (!list.children.length) tell(phrase('submit.store.empty'));
    use.hidden = false;
    use.onclick = () => choose(bucket, prefix);
    more.hidden = !found.next;
    more.onclick = () => open(bucket, prefix, found.next);
    ($('button', made[0] ?? list) ?? use).focus();
  });

  document.body.append(dialog);
  dialog.addEventListener('close', () => { dialog.remove(); resolve(chosen); });
  dialog.showModal();
  if (first) open(first, rest.slice(0, rest.lastIndexOf('/') + 1)).then((found) => found || buckets());
  else buckets();
});
