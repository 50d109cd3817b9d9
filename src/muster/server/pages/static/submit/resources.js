// Pools, kinds of devices and how many: what there is and what is free, offered while one chooses.
import { $, $$, atMost, h, label, phrase, say } from '../dom.js';
import { get } from '../api.js';
import { watchRuns } from '../live.js';
import { TEXTS } from '../texts.js';

const RINGS = [1, 2, 4, 8]; // devices that a node of Ascend chips gives to a job
const KINDS = ['ascend', 'nvidia', 'cpu'];
const whole = (text) => (/^\d+$/.test(text ?? '') ? Number(text) : null);

export class Resources {
  #pools = []; // with their nodes, as the API shows them

  constructor(file, setup, changed) {
    Object.assign(this, { file, setup, changed });
    $('[data-kinds]').addEventListener('change', (event) => { file.set(['device'], event.target.value); changed(true); });
    const again = atMost(5000, () => this.load());
    watchRuns(() => again());
    document.addEventListener('language', () => this.sync());
    this.load();
  }

  async load() {
    try {
      const { items } = await get('/api/v1/pools');
      this.#pools = await Promise.all(items.map((one) => get(`/api/v1/pools/${encodeURIComponent(one.pool)}`)));
      this.sync();
    } catch { /* the check says what is wrong */ }
  }

  get project() {
    const named = this.file.get('project');
    return this.setup.projects.find((one) => one.name === named) ?? (this.setup.projects.length === 1 ? this.setup.projects[0] : null);
  }

  /** The pools that could run the job. */
  get #candidates() {
    const serving = this.project ? this.project.pools : this.setup.projects.flatMap((one) => one.pools);
    const wanted = this.file.get('pool') || this.project?.pool;
    return this.#pools.filter((one) => serving.includes(one.pool) && (!wanted || wanted === one.pool));
  }

  /** Devices of nodes that start jobs: [kind, total of the node, free there]. */
  get #ofNodes() {
    return this.#candidates.flatMap((one) => one.nodes.filter((node) => node.state === 'usable')).flatMap((node) => node.devices.map((device) => ({ ...device, node: node.node })));
  }

  sync() {
    this.#syncPools();
    this.#syncKinds();
    this.#syncSizes();
  }

  #syncPools() {
    const select = $('#f-pool');
    const { project } = this;
    const names = project ? project.pools : [...new Set(this.setup.projects.flatMap((one) => one.pools))];
    const written = this.file.get('pool') ?? '';
    const known = names.includes(written) || !written ? names : [...names, written];
    const first = h('option', { value: '' });
    if (project?.pool) first.textContent = say('submit.pool.usual', { pool: project.pool });
    else label(first, 'text', 'submit.pool.any');
    select.replaceChildren(first, ...known.map((name) => h('option', { value: name }, name)));
    select.value = written;
    const pool = this.#candidates.length === 1 ? this.#candidates[0] : null;
    const note = pool ? [phrase('submit.pool.waiting', { active: pool.runs.active, waiting: pool.runs.waiting }), ...(pool.drained ? [' · ', phrase('submit.pool.drained')] : []), ...(pool.problem ? [' · ', pool.problem] : [])] : [];
    $('[data-pool-note]').replaceChildren(...note);
  }

  #syncKinds() {
    const chosen = this.file.get('device') || 'auto';
    const sums = new Map();
    for (const pool of this.#candidates) {
      for (const { kind, model, total, free } of pool.devices) {
        const sum = sums.get(kind) ?? { total: 0, free: 0, models: new Set() };
        sums.set(kind, { total: sum.total + total, free: sum.free + free, models: model && model.toLowerCase() !== kind ? sum.models.add(model) : sum.models });
      }
    }
    const kinds = ['auto', ...KINDS.filter((kind) => sums.has(kind) || kind === 'cpu')];
    if (!kinds.includes(chosen)) kinds.push(chosen);
    const state = JSON.stringify([kinds, chosen, [...sums].map(([kind, { total, free, models }]) => [kind, total, free, [...models]])]);
    if (state === this.state) return;
    this.state = state;
    const focused = $('[data-kinds]').contains(document.activeElement);
    const made = kinds.map((kind) => {
      const sum = sums.get(kind);
      const about = kind === 'auto' ? [phrase('submit.device.auto.what')] : sum ? [phrase('submit.device.free', sum), ...(sum.models.size ? [' · ', h('bdi', {}, [...sum.models].join(', '))] : [])] : [phrase(kind === 'cpu' ? 'submit.device.uncounted' : 'submit.device.unknown')];
      const known = `submit.device.${kind}` in TEXTS;
      return h('label', { class: `choice${sum && !sum.free ? ' none-free' : ''}` }, h('input', { type: 'radio', name: 'device', value: kind === 'auto' ? '' : kind, checked: kind === chosen }), h('span', {}, h('strong', {}, known ? phrase(`submit.device.${kind}`) : kind.toUpperCase()), h('small', {}, ...about)));
    });
    $('[data-kinds]').replaceChildren(...made);
    if (focused) $('[data-kinds] input:checked')?.focus();
  }

  #syncSizes() {
    const [nodes, devices] = [whole(this.file.get('nodes') ?? '1'), whole(this.file.get('devices') ?? '1')];
    const kind = this.file.get('device') || this.#only();
    const total = nodes && devices ? nodes * devices : null;
    $('[data-total]').replaceChildren(...(total === null ? ['–'] : [`${nodes} × ${devices} = `, h('strong', {}, total === 1 ? phrase('submit.total.device') : phrase('submit.total.devices', { count: total }))]));
    const there = this.#ofNodes.filter((one) => one.kind === kind);
    const largest = Math.max(0, ...there.map((one) => one.total));
    this.#offer(kind, devices, largest);
    const fitting = there.filter((one) => devices && one.free >= devices).length;
    const words = { 0: 'submit.fitting.none', 1: 'submit.fitting.one' }[fitting] ?? 'submit.fitting';
    $('[data-fitting]').replaceChildren(...(there.length && devices ? [phrase(words, { count: fitting })] : []));
  }

  /** The kind that `auto` means where the pools have one kind of accelerator. */
  #only() {
    const kinds = [...new Set(this.#ofNodes.map((one) => one.kind))];
    const [first] = KINDS.filter((kind) => kinds.includes(kind));
    return first ?? 'auto';
  }

  #offer(kind, devices, largest) {
    const powers = RINGS.filter((count) => !largest || count <= largest);
    const counts = kind === 'ascend' ? powers : [...new Set([...powers, ...[16, 32].filter((count) => count <= largest), ...(largest ? [largest] : [])])].sort((a, b) => a - b);
    const place = $('[data-offers]');
    const note = kind === 'ascend' && devices && !RINGS.includes(devices) ? [h('span', { class: 'note' }, phrase('submit.ring'))] : [];
    const focused = place.contains(document.activeElement) ? document.activeElement.dataset.count : null;
    place.replaceChildren(...counts.map((count) => h('button', { type: 'button', 'data-count': count, 'aria-pressed': String(count === devices), 'aria-label': say('submit.offer', { count }), onclick: () => { this.file.set(['devices'], count === 1 ? '' : String(count)); this.changed(true); } }, String(count))), ...note);
    if (focused) $$('button', place).find((one) => one.dataset.count === focused)?.focus();
  }
}
