// The screen: shows those lines of a window that can be seen, and asks for more where it comes to its edges.
import { bytes, h, phrase } from '../dom.js';
import { rendered } from './ansi.js';

export const HEIGHT = 18; // of a line, in pixels
const MARGIN = 30; // lines that are rendered beyond what can be seen
const EDGE = 600; // pixels from an edge at which more is asked for

export class Screen {
  /** `more` is called with -1 or 1 where the screen comes to the beginning or the end of its window. */
  constructor(element, more, moved) {
    this.element = element;
    this.spacer = element.firstElementChild;
    this.more = more;
    this.moved = moved;
    this.source = null;
    this.marked = null; // the offset of a line that was looked for
    this.top = 0; // where the screen was put by this program
    this.waiting = false;
    element.addEventListener('scroll', () => {
      const up = element.scrollTop < this.top - 2;
      this.top = element.scrollTop;
      this.draw();
      this.moved(up, this.isAtEnd);
      if (element.scrollTop < EDGE) this.more(-1);
      if (this.isAtEnd) this.more(1);
    }, { passive: true });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  get isAtEnd() { return this.element.scrollTop + this.element.clientHeight > this.element.scrollHeight - EDGE / 4; }

  show(source) {
    this.source = source;
    this.draw();
  }

  scrollTo(top) {
    this.top = top;
    this.element.scrollTop = top;
    this.top = this.element.scrollTop;
  }

  toEnd() {
    this.resize();
    this.draw();
    this.scrollTo(this.element.scrollHeight);
  }

  /** Moves what is seen by as many lines as came or went above it. */
  shift(lines) {
    this.resize();
    if (lines) this.scrollTo(Math.max(0, this.element.scrollTop + lines * HEIGHT));
    this.draw();
  }

  toLine(index) {
    this.resize();
    this.scrollTo(Math.max(0, index * HEIGHT - this.element.clientHeight / 3));
    this.draw();
  }

  resize() {
    this.spacer.style.height = `${Math.max(1, this.source.count) * HEIGHT + 8}px`;
  }

  draw() {
    if (!this.source || this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.drawNow(); });
  }

  drawNow() {
    this.resize();
    const first = Math.max(0, Math.floor(this.element.scrollTop / HEIGHT) - MARGIN);
    const last = Math.min(this.source.count, first + Math.ceil(this.element.clientHeight / HEIGHT) + 2 * MARGIN);
    const rows = [];
    let widest = 0;
    for (let index = first; index < last; index += 1) {
      const one = this.source.at(index);
      const row = h('div', { class: one.offset !== undefined && one.offset === this.marked ? 'row hit' : 'row' },
        one.who ? h('span', { class: 'who' }, `${one.who}  `) : null, ...rendered(one.text, this.source.stateAt(index)),
        one.cut ? h('span', { class: 'more' }, phrase('console.cut', { size: bytes(one.cut) })) : null);
      row.style.top = `${index * HEIGHT + 4}px`;
      rows.push(row);
      widest = Math.max(widest, one.text.length);
    }
    this.spacer.style.width = `${Math.max(10, Math.min(4100, widest + 12))}ch`;
    this.spacer.replaceChildren(...rows);
  }

  /** The first line that can be seen. */
  get first() { return this.source?.count ? this.source.at(Math.min(this.source.count - 1, Math.floor(this.element.scrollTop / HEIGHT))) : null; }
}
