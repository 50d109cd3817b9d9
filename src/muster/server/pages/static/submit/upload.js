// Sends code as the API wants it: files by their SHA-256, of which only those go that the server does not have.
import { csrf, post, Refused } from '../api.js';
import { byName, foldersOf } from './folder.js';

const BLOCK = 512;
const BATCH = 64 << 20; // bytes of one request, so that little is sent again when one fails
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, '0')).join('');

const digestOf = async (file) => {
  const content = await file.arrayBuffer();
  const [first, second] = new Uint8Array(content.slice(0, 2));
  return { sha: hex(await crypto.subtle.digest('SHA-256', content)), isProgram: first === 0x23 && second === 0x21 };
};

/** The header of a file in a tar archive. */
const header = (name, size) => {
  const block = new Uint8Array(BLOCK);
  const put = (at, text) => block.set(new TextEncoder().encode(text), at);
  put(0, name);
  put(100, '0000444\0');
  put(108, '0000000\0');
  put(116, '0000000\0');
  put(124, `${size.toString(8).padStart(11, '0')}\0`);
  put(136, '00000000000\0');
  put(148, '        ');
  put(156, '0');
  put(257, 'ustar\x0000');
  put(148, `${block.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, '0')}\0 `);
  return block;
};
const archive = (files) => new Blob([...files.flatMap(([sha, file]) => [header(sha, file.size), file, new Uint8Array((BLOCK - (file.size % BLOCK)) % BLOCK)]), new Uint8Array(2 * BLOCK)]);

/** Sends bytes, telling how many went; `fetch` cannot. */
const put = (path, body, signal, sent) => new Promise((resolve, reject) => {
  const request = new XMLHttpRequest();
  const stop = () => request.abort();
  signal.addEventListener('abort', stop);
  request.open('PUT', path);
  Object.entries(csrf()).forEach(([name, value]) => request.setRequestHeader(name, value));
  request.responseType = 'json';
  request.upload.onprogress = (event) => sent(event.loaded);
  request.onload = () => (request.status < 300 ? resolve(request.response) : reject(new Refused(request.status, request.response?.reason ?? request.statusText)));
  request.onerror = () => reject(new Refused(0, 'the connection was interrupted'));
  request.onabort = () => reject(new DOMException('', 'AbortError'));
  request.onloadend = () => signal.removeEventListener('abort', stop);
  request.send(body);
});

/** Announces and sends code; resolves to its digest and how many files went. `tell` hears of the progress. */
export const upload = async (files, signal, tell) => {
  const bySha = new Map();
  const entries = foldersOf(files.map(([path]) => path)).map((path) => ['folder', path]);
  let done = 0;
  for (const [path, file] of files) {
    const { sha, isProgram } = await digestOf(file);
    signal.throwIfAborted();
    bySha.set(sha, file);
    entries.push([isProgram ? 'program' : 'file', sha, path]);
    done += 1;
    tell({ read: done, of: files.length });
  }
  entries.sort((first, second) => byName(first.at(-1), second.at(-1)));
  const { code, missing } = await post('/api/v1/code', { entries });
  const wanted = missing.map((sha) => [sha, bySha.get(sha)]);
  const total = wanted.reduce((sum, [, file]) => sum + file.size, 0);
  let sent = 0;
  while (wanted.length) {
    const batch = [];
    let size = 0;
    while (wanted.length && (!batch.length || size + wanted[0][1].size <= BATCH)) { batch.push(wanted.shift()); size += batch.at(-1)[1].size; }
    await put(`/api/v1/code/${code}`, archive(batch), signal, (bytes) => tell({ sent: Math.min(total, sent + bytes), total }));
    sent += size;
  }
  return { code, sent: missing.length };
};

/** Code that holds nothing. */
export const empty = async () => (await post('/api/v1/code', { entries: [] })).code;
