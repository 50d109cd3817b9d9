// A part of one log in memory, however long the log is: it grows at both ends and is cut at the other.
import { send } from '../api.js';
import { stateAfter } from './ansi.js';

const CHUNK = 256 << 10; // bytes that are read at once
const LINES = 20000; // that are kept
const SHOWN = 4000; // bytes of a line that are kept
const NEWLINE = 10;
const decoder = new TextDecoder('utf-8');

const line = (bytes, offset) => ({ offset, length: bytes.length, text: decoder.decode(bytes.subarray(0, SHOWN)), cut: Math.max(0, bytes.length - SHOWN) });

export class LogWindow {
  /** `url` is the address of the log, to which offset and limit are added. */
  constructor(url) {
    this.url = url;
    this.clear(0);
    this.size = 0;
  }

  clear(offset) {
    this.lines = [];
    this.start = offset;
    this.end = offset; // of the last whole line
    this.partial = new Uint8Array(0); // what stands behind it
  }

  get atStart() { return this.start === 0; }

  get atEnd() { return this.end + this.partial.length >= this.size; }

  /** Reads around an offset; the log's end without one. */
  async open(offset = null) {
    const first = offset === null ? await this.read(0, 1) : null;
    const place = offset === null ? Math.max(0, this.size - CHUNK) : Math.max(0, offset - CHUNK / 4);
    this.clear(place);
    const data = first && this.size <= 1 ? first : await this.read(place, CHUNK);
    const skipped = place === 0 ? 0 : data.indexOf(NEWLINE) + 1;
    this.start = place + skipped;
    this.end = this.start;
    this.append(data.subarray(skipped));
  }

  async read(offset, limit) {
    const answer = await send('GET', `${this.url}&offset=${offset}&limit=${limit}`);
    this.size = Math.max(this.size, Number(answer.headers.get('X-Muster-Size')));
    return new Uint8Array(await answer.arrayBuffer());
  }

  /** Takes bytes that follow those that are here; returns how many lines were cut off at the beginning. */
  append(data) {
    const bytes = this.partial.length ? joined(this.partial, data) : data;
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, from)) {
      this.lines.push(line(bytes.subarray(from, at), this.end + from));
      from = at + 1;
    }
    if (bytes.length - from >= CHUNK) { // a line without an end is shown in parts
      this.lines.push(line(bytes.subarray(from), this.end + from));
      from = bytes.length;
    }
    this.end += from;
    this.partial = bytes.slice(from);
    this.size = Math.max(this.size, this.end + this.partial.length);
    const extra = this.lines.length - LINES;
    if (extra <= 0) return 0;
    this.lines.splice(0, extra);
    this.start = this.lines[0].offset;
    return extra;
  }

  /** Reads on; returns how many lines were cut off at the beginning. */
  async loadAfter() {
    return this.append(await this.read(this.end + this.partial.length, CHUNK));
  }

  /** Reads what stands before; returns how many lines came. */
  async loadBefore() {
    const place = Math.max(0, this.start - CHUNK);
    const data = (await this.read(place, this.start - place)).subarray(0, this.start - place);
    const skipped = place === 0 ? 0 : Math.max(0, data.indexOf(NEWLINE) + 1) % Math.max(1, data.length);
    const made = [];
    for (let from = skipped; from < data.length;) {
      const at = data.indexOf(NEWLINE, from);
      const to = at < 0 ? data.length : at;
      made.push(line(data.subarray(from, to), place + from));
      from = to + 1;
    }
    this.start = place + skipped;
    this.lines = made.concat(this.lines);
    if (this.lines.length > LINES) {
      this.lines.length = LINES;
      const last = this.lines[LINES - 1];
      this.end = last.offset + last.length + 1;
      this.partial = new Uint8Array(0);
    }
    return made.length;
  }

  get count() { return this.lines.length + (this.partial.length ? 1 : 0); }

  at(index) { return this.lines[index] ?? line(this.partial, this.end); }

  /** The colours at the beginning of a line: those of the few before it. */
  stateAt(index) {
    let state;
    for (let before = Math.max(0, index - 20); before < index; before += 1) state = stateAfter(this.lines[before].text, state);
    return state;
  }
}

const joined = (first, second) => {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
};
