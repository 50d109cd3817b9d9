// Output of programs as elements: colours of the terminal become classes, everything else that controls a terminal is left out
// or shown as what it is. Nothing of it is ever parsed as HTML.
import { h } from '../dom.js';

const SEQUENCE = /\x1b(?:\[([0-?]*)[ -\/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -\/]*[0-~])?|[\x00-\x08\x0b-\x1f\x7f-\x9f]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const PLAIN = Object.freeze({});
const FLAGS = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse' };
const OFF = { 22: ['bold', 'dim'], 23: ['italic'], 24: ['underline'], 27: ['inverse'] };

/** The nearest of the eight colours. */
const nearest = (r, g, b) => {
  const high = Math.max(r, g, b);
  if (high - Math.min(r, g, b) < 48) return high < 110 ? 8 : 7;
  const bit = (value) => (value > high * 0.6 ? 1 : 0);
  return bit(r) + 2 * bit(g) + 4 * bit(b);
};
const of256 = (index) => {
  if (index < 16) return index;
  if (index >= 232) return index < 244 ? 8 : 7;
  const part = (value) => (value ? 55 + 40 * value : 0);
  const cube = index - 16;
  return nearest(part(Math.floor(cube / 36)), part(Math.floor(cube / 6) % 6), part(cube % 6));
};

/** The state after a sequence that sets colours. */
const styled = (state, text) => {
  const codes = text.split(/[;:]/).slice(0, 32).map(Number);
  const next = { ...state };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (!code) { for (const key of Object.keys(next)) delete next[key]; }
    else if (FLAGS[code]) next[FLAGS[code]] = true;
    else if (OFF[code]) for (const flag of OFF[code]) delete next[flag];
    else if (code >= 30 && code <= 37) next.ink = code - 30;
    else if (code >= 90 && code <= 97) next.ink = code - 82;
    else if (code === 39) delete next.ink;
    else if (code >= 40 && code <= 47) next.on = code - 40;
    else if (code >= 100 && code <= 107) next.on = code - 92;
    else if (code === 49) delete next.on;
    else if (code === 38 || code === 48) {
      const colour = codes[at + 1] === 5 ? of256(codes[at + 2] || 0) : nearest(codes[at + 2] || 0, codes[at + 3] || 0, codes[at + 4] || 0);
      at += codes[at + 1] === 5 ? 2 : 4;
      next[code === 38 ? 'ink' : 'on'] = colour;
    }
  }
  return Object.keys(next).length ? next : PLAIN;
};

/** The colours that hold after a line, for the one behind it. */
export const stateAfter = (text, state = PLAIN) => {
  if (!text.includes('\x1b')) return state;
  for (const found of text.matchAll(SEQUENCE)) if (found[2] === 'm') state = styled(state, found[1]);
  return state;
};

const classes = (state) => [
  ...Object.values(FLAGS).filter((flag) => state[flag]).map((flag) => `ansi-${flag}`),
  ...(state.ink === undefined ? [] : [`ansi-${state.ink}`]),
  ...(state.on === undefined ? [] : [`ansi-on-${state.on}`]),
].join(' ');

const odd = (letter) => {
  const code = letter.codePointAt(0);
  return h('span', { class: 'odd' }, code < 32 ? `^${String.fromCharCode(code + 64)}` : `‹U+${code.toString(16).toUpperCase().padStart(4, '0')}›`);
};

/** What a terminal would show of a line in which the cursor returned to its beginning, as progress bars do. */
const overwritten = (text) => {
  const bare = text.replace(/\r+$/, '');
  return bare.slice(bare.lastIndexOf('\r') + 1);
};

/** A line as nodes. */
export const rendered = (line, state = PLAIN) => {
  const text = overwritten(line);
  const nodes = [];
  const add = (part) => { if (part) nodes.push(state === PLAIN ? part : h('span', { class: classes(state) }, part)); };
  let from = 0;
  for (const found of text.matchAll(SEQUENCE)) {
    add(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === 'm') state = styled(state, found[1]);
    else if (found[0][0] !== '\x1b') nodes.push(odd(found[0]));
  }
  add(text.slice(from));
  return nodes;
};
