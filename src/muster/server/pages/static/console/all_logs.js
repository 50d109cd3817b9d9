// The ends of all logs as they are written, each line with the name of its process: the newest lines are kept.
const LINES = 20000;
const SHOWN = 4000;

export class AllLogs {
  constructor() {
    this.lines = [];
    this.rests = new Map();
    this.decoders = new Map();
    this.ends = new Map();
    this.atStart = true;
    this.atEnd = true;
    this.size = 0;
  }

  /** Takes bytes of a log that stand before an offset, but for those that were taken before; returns how many lines were cut off at the beginning. */
  append(key, bytes, end) {
    const last = this.ends.get(key) ?? end - bytes.length;
    if (end <= last) return 0;
    const missed = end - bytes.length - last;
    const data = missed < 0 ? bytes.subarray(-missed) : bytes;
    this.ends.set(key, end);
    if (missed > 0 || !this.decoders.has(key)) this.decoders.set(key, new TextDecoder('utf-8'));
    if (missed > 0) {
      this.rests.delete(key);
      this.lines.push({ who: key.split('/')[2], text: '⋯' });
    }
    const text = (this.rests.get(key) ?? '') + this.decoders.get(key).decode(data, { stream: true });
    const parts = text.split('\n');
    this.rests.set(key, parts.pop().slice(-SHOWN));
    for (const part of parts) this.lines.push({ who: key.split('/')[2], text: part.slice(0, SHOWN), cut: Math.max(0, part.length - SHOWN) });
    const extra = Math.max(0, this.lines.length - LINES);
    this.lines.splice(0, extra);
    return extra;
  }

  get count() { return this.lines.length; }

  at(index) { return this.lines[index]; }

  stateAt() { return undefined; }
}
