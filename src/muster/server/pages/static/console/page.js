// The console of a job: one log from its beginning to its end, or the ends of all; what ranks write appears at once.
import { $, atMost, bytes, h, label, phrase } from '../dom.js';
import { get, lines, run as path, send, toast, trying } from '../api.js';
import { id, job } from '../job.js';
import { AllLogs } from './all_logs.js';
import { LogWindow } from './log_window.js';
import { Screen } from './screen.js';
import { searchForm } from './search.js';

const ALL = 'all';
const FAR = 1 << 20; // bytes that came while the page was hidden, which are not read up to their end
const [select, follow, place, status, none, download] = ['[data-log]', '[data-follow]', '[data-place]', '[data-status]', '[data-none]', '[data-download]'].map((one) => $(one));
const query = new URLSearchParams(location.search);
let source = null;
let stream = null;
let connection = null; // of the stream
let loading = false;
let known = new Set();

const keyOf = (log) => `${log.attempt}/${log.node}/${log.process}`;
const parts = (key) => { const [attempt, node, ...process] = key.split('/'); return { attempt, node, process: process.join('/') }; };
const address = (key) => `${path(id)}/log?${new URLSearchParams(parts(key))}`;

const more = async (direction) => {
  if (loading || !(source instanceof LogWindow)) return;
  if (direction < 0 ? source.atStart : source.atEnd) return;
  loading = true;
  await trying(async () => {
    const mine = source;
    const lines = direction < 0 ? await mine.loadBefore() : -(await mine.loadAfter());
    if (mine === source) screen.shift(lines);
  });
  loading = false;
};
const moved = (up, isAtEnd) => {
  if (up) follow.checked = false;
  else if (isAtEnd && source?.atEnd) follow.checked = true;
  tell();
};
const screen = new Screen($('[data-screen]'), more, moved);

const tell = () => {
  none.hidden = Boolean(source?.count);
  const isLong = source instanceof LogWindow;
  place.hidden = !isLong || source.size < (1 << 20);
  if (!isLong) { status.replaceChildren(); return; }
  const first = screen.first;
  status.replaceChildren(phrase('console.size', { shown: bytes(first ? first.offset : 0), size: bytes(source.size) }));
  if (document.activeElement !== place) place.value = source.size ? Math.round((1000 * (follow.checked ? source.size : first?.offset ?? 0)) / source.size) : 1000;
};

const decoded = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

const seen = () => new Promise((resolve) => {
  if (document.hidden) document.addEventListener('visibilitychange', () => resolve(seen()), { once: true });
  else resolve();
});
document.addEventListener('visibilitychange', () => { if (document.hidden) connection?.abort(); });

const unlisten = () => {
  stream = null;
  connection?.abort();
};

/** Follows what is written while the page is seen: a browser has six connections to a server, which hidden tabs leave to others. */
const listen = async (body, take) => {
  const mine = {};
  stream = mine;
  for (let pause = 0; ; await new Promise((resolve) => { setTimeout(resolve, pause); })) {
    await seen();
    if (stream !== mine) return;
    const { signal } = connection = new AbortController();
    try {
      const given = await body();
      if (stream !== mine) return;
      const answer = await send('POST', `${path(id)}/follow`, given, { signal });
      for await (const one of lines(answer)) {
        if (stream !== mine) return;
        if (one.log) take(one.log.join('/'), decoded(one.data), one.offset);
        if (one.end) return;
      }
    } catch { /* a break; or the page was hidden, or shows something else */ }
    pause = signal.aborted ? 0 : 1000;
  }
};

const arrived = (cut) => {
  if (follow.checked) screen.toEnd();
  else screen.shift(-cut);
  tell();
};

const openAll = async (logs) => {
  source = new AllLogs();
  screen.show(source);
  download.href = `/jobs/${encodeURIComponent(id)}/logs.zip`;
  download.hidden = !logs.length;
  const tail = Math.max(5, Math.floor(5000 / Math.max(1, logs.length)));
  const mine = source;
  listen(() => ({ tail }), (key, data, end) => { // after a break the ends are told again
    if (!known.has(key)) refreshSoon();
    arrived(mine.append(key, data, end));
  });
  tell();
};

const openLog = async (key, offset = null) => {
  const mine = new LogWindow(address(key));
  source = mine;
  download.href = `/jobs/${encodeURIComponent(id)}/log?${new URLSearchParams(parts(key))}`;
  download.hidden = false;
  await mine.open(offset);
  if (mine !== source) return;
  screen.marked = offset;
  screen.show(mine);
  if (offset === null) { follow.checked = true; screen.drawNow(); screen.toEnd(); } else {
    follow.checked = false;
    const index = mine.lines.findIndex((one) => one.offset >= offset);
    screen.toLine(index < 0 ? mine.count - 1 : index);
  }
  const { attempt, process } = parts(key);
  const last = () => mine.end + mine.partial.length;
  let again = false;
  const body = async () => {
    if (again) await mine.read(last(), 1); // what came meanwhile
    if (again && follow.checked && mine.size - last() > FAR && mine === source) await toEnd();
    again = true;
    return { attempt: Number(attempt), processes: [process], offsets: { [key]: mine.size - last() > FAR ? mine.size : last() } };
  };
  if (job.dataset.ended !== 'true') listen(body, (from, data, end) => {
    if (from !== key) return;
    const start = end - data.length;
    mine.size = Math.max(mine.size, end);
    if (start <= last() && end > last()) arrived(mine.append(data.subarray(last() - start)));
    else tell();
  });
  tell();
};

const choose = (key, offset = null) => trying(async () => {
  unlisten();
  select.value = key;
  const words = new URLSearchParams(key === ALL ? {} : parts(key));
  history.replaceState(null, '', `${location.pathname}${words.size ? `?${words}` : ''}`);
  if (key === ALL) await openAll([...known]);
  else await openLog(key, offset);
});

const refreshLogs = async () => {
  const { items } = await get(`${path(id)}/logs`);
  const fresh = new Set(items.map(keyOf));
  if (fresh.size === known.size && select.options.length) return items;
  known = fresh;
  const chosen = select.value;
  const attempts = new Set(items.map((log) => log.attempt)).size;
  const options = items.map((log) => h('option', { value: keyOf(log) }, `${log.process} · ${log.node}${attempts > 1 ? ` · ${log.attempt}` : ''}`));
  select.replaceChildren(label(h('option', { value: ALL }), 'text', 'console.all'), ...options);
  select.value = fresh.has(chosen) ? chosen : ALL;
  if (source instanceof AllLogs) download.hidden = !known.size;
  return items;
};

const refreshSoon = atMost(500, () => trying(refreshLogs)); // a thousand ranks begin at once

/** Goes to the first line that looks like an error: of the log that is shown, else of the rank that failed first, else of any. */
const firstError = async () => {
  const key = select.value;
  const { failed } = $('[data-console]').dataset;
  const logs = key !== ALL ? [parts(key)] : known.has(failed) ? [parts(failed), {}] : [{}];
  const found = await searches.search(...logs.map((log) => ({ ...log, limit: 1 })));
  if (found === null) return; // cancelled
  searches.close();
  if (found.length) await choose(found[0].log.join('/'), found[0].offset);
  else toast('console.no_error');
};

select.addEventListener('change', () => choose(select.value));
follow.addEventListener('change', () => { if (follow.checked) toEnd(); });
const toEnd = () => trying(async () => {
  if (source instanceof LogWindow && !source.atEnd) await source.open();
  follow.checked = true;
  screen.show(source);
  screen.drawNow();
  screen.toEnd();
  tell();
});
$('[data-end]').addEventListener('click', toEnd);
$('[data-top]').addEventListener('click', () => trying(async () => {
  follow.checked = false;
  if (source instanceof LogWindow && !source.atStart) await source.open(0);
  screen.show(source);
  screen.drawNow();
  screen.scrollTo(0);
  tell();
}));
place.addEventListener('change', () => trying(async () => {
  follow.checked = false;
  const offset = Math.floor((source.size * place.value) / 1000);
  await source.open(offset);
  screen.show(source);
  screen.toLine(Math.max(0, source.lines.findIndex((one) => one.offset >= offset)));
  tell();
}));
$('[data-error]').addEventListener('click', () => trying(firstError));
const searches = searchForm(id, (hit) => choose(hit.log.join('/'), hit.offset));

trying(async () => {
  const items = await refreshLogs();
  const wanted = query.has('process') ? `${query.get('attempt') ?? 1}/${query.get('node') ?? 0}/${query.get('process')}` : null;
  if (wanted && known.has(wanted)) await choose(wanted);
  else await choose(items.length === 1 ? keyOf(items[0]) : ALL);
  if (query.has('error')) await firstError();
});
