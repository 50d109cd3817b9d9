// The job file, as text and as values. Changes of fields leave comments and everything else of the text as it is.
import { Pair, Scalar, YAMLMap, isMap, parseDocument, visit } from '../vendor/yaml.mjs';

// All scalars are texts, as Muster reads them: `1e-3` stays `1e-3`.
const OPTIONS = { schema: 'failsafe', merge: true, logLevel: 'silent' };
const WRITTEN = { lineWidth: 0, flowCollectionPadding: false };
const QUOTED = /^(~|null|Null|NULL|<<|=|)$/; // what other readers of YAML do not take for a text
const ODD = /^[-+.\d]|^(~|true|false|yes|no|on|off|null)$/i; // quoted, it is a text for other readers, too
const ORDER = ['name', 'kind', 'project', 'pool', 'framework', 'per', 'code', 'boot', 'command', 'parameters', 'nodes', 'devices', 'device', 'preemptible', 'priority', 'inputs', 'outputs', 'env', 'secrets', 'endpoints', 'login', 'idle_limit', 'compat', 'time_limit', 'silent_limit', 'retries', 'cpus', 'memory', 'setup'];

const isMapping = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isEmpty = (value) => value === undefined || value === null || value === '' || (typeof value === 'object' && !Object.keys(value).length);

const scalar = (text) => {
  const made = new Scalar(text);
  if (text.includes('\n')) made.type = Scalar.BLOCK_LITERAL;
  else if (QUOTED.test(text)) made.type = Scalar.QUOTE_DOUBLE;
  return made;
};

/** Values as nodes: texts, lists and mappings of them. */
const node = (value, document) => {
  if (Array.isArray(value)) { const made = document.createNode([]); made.flow = true; made.items = value.map((one) => node(one, document)); return made; }
  if (!isMapping(value)) return scalar(String(value));
  const made = new YAMLMap(document.schema);
  for (const [name, one] of Object.entries(value)) made.items.push(new Pair(scalar(name), node(one, document)));
  return made;
};

export class JobFile {
  constructor(text = '') { this.read(text); }

  /** Takes a text; where it cannot be read, `problem` is true, and the values stay as they were. */
  read(text) {
    this.text = text;
    this.problem = true;
    const found = parseDocument(text, OPTIONS);
    if (found.errors.length) return;
    if (!found.contents) {
      const comment = found.comment ?? found.commentBefore;
      Object.assign(found, { contents: new YAMLMap(found.schema), comment: null, commentBefore: comment });
    }
    try {
      const values = found.toJS() ?? {};
      if (isMap(found.contents) && isMapping(values)) Object.assign(this, { values, document: found, problem: false });
    } catch { /* too many aliases */ }
  }

  /** Writes what is JSON, as programs submit it, in lines as people do. */
  unfold() {
    try { JSON.parse(this.text); } catch { return; }
    if (this.problem) return;
    visit(this.document, {
      Map: (_, map) => { map.flow = false; },
      Scalar: (_, one) => {
        if (one.type !== Scalar.QUOTE_DOUBLE || ODD.test(one.value) || QUOTED.test(one.value)) return;
        one.type = one.value.includes('\n') ? Scalar.BLOCK_LITERAL : Scalar.PLAIN;
      },
    });
    this.#write();
  }

  /** A field, or an entry of it. */
  get(...path) { return path.reduce((found, name) => (isMapping(found) ? found[name] : undefined), this.values); }

  /** Sets a field or an entry of one; what is empty is removed. */
  set(path, value) {
    const [field, ...inner] = path;
    const whole = inner.length ? this.#with(this.get(field), inner, value) : value;
    try {
      if (inner.length && isMap(this.document.get(field, true)) && !isEmpty(whole)) {
        if (isEmpty(value)) this.document.deleteIn(path);
        else this.document.setIn(path, node(value, this.document));
      } else this.#put(field, whole);
    } catch { this.#put(field, whole); } // an alias: its place is taken by what it stood for
    this.#write();
  }

  /** Sets the entries of a mapping: pairs of names and values, in this order. Entries that stay keep their comments. */
  entries(field, pairs) {
    const map = this.document.get(field, true);
    if (!isMap(map) || map.items.some((pair) => String(pair.key) === '<<')) { this.set([field], Object.fromEntries(pairs)); return; }
    const old = new Map(map.items.map((pair) => [String(pair.key), pair]));
    const before = this.get(field) ?? {};
    map.items = pairs.map(([name, value]) => {
      const there = old.get(name);
      if (there && JSON.stringify(before[name]) === JSON.stringify(value)) return there;
      if (there) { there.value = node(value, this.document); return there; }
      return new Pair(scalar(name), node(value, this.document));
    });
    if (!pairs.length) this.document.delete(field);
    this.#write();
  }

  /** All values by their names, with dots: path and text of each; a list is one value. */
  flat() {
    const found = new Map();
    const walk = (path, value) => {
      if (isMapping(value)) for (const [name, one] of Object.entries(value)) walk([...path, name], one);
      else if (!isEmpty(value)) found.set(path.join('.'), { path, text: Array.isArray(value) ? value.join(', ') : String(value).trimEnd() });
    };
    walk([], this.values);
    return found;
  }

  #with(outer, [name, ...rest], value) {
    const made = isMapping(outer) ? { ...outer } : {};
    const inner = rest.length ? this.#with(made[name], rest, value) : value;
    if (isEmpty(inner)) delete made[name];
    else made[name] = inner;
    return made;
  }

  /** Puts a field where it usually stands. */
  #put(field, value) {
    const { items } = this.document.contents;
    if (isEmpty(value)) { this.document.delete(field); return; }
    const there = items.find((pair) => String(pair.key) === field);
    if (there) {
      const fresh = node(value, this.document);
      fresh.comment = there.value?.comment;
      there.value = fresh;
      return;
    }
    const rank = (name) => { const found = ORDER.indexOf(name); return found < 0 ? ORDER.length : found; };
    let place = items.findIndex((pair) => rank(String(pair.key)) > rank(field));
    if (place < 0) place = items.length;
    items.splice(place, 0, new Pair(scalar(field), node(value, this.document)));
  }

  #write() {
    if (!this.document.contents.items.length) this.document.contents.flow = false;
    const text = this.document.contents.items.length ? this.document.toString(WRITTEN) : (this.document.commentBefore ? `#${this.document.commentBefore}\n` : '');
    this.read(text);
  }
}
export { isMapping };
