// One chart: lines over steps or time, drawn by uPlot; drag zooms, the legend shows the values under the pointer.
import uPlot from '../vendor/uPlot.esm.js';
import { h, isChinese, pair, phrase, root, say } from '../dom.js';
import { TEXTS } from '../texts.js';

const HEIGHT = 210;
const SERIES = ['--s0', '--s1', '--s2', '--s3', '--s4', '--s5', '--s6', '--s7'];
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const figure = (value) => (value === null || value === undefined ? '–' : value.toLocaleString('en-US', { maximumSignificantDigits: 5 }));
const clock = (seconds) => {
  if (seconds < 60) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours}:${String(minutes).padStart(2, '0')}:${String(whole % 60).padStart(2, '0')}` : `${minutes}:${String(whole % 60).padStart(2, '0')}`;
};

const named = (name) => (`metrics.name.${name}` in TEXTS ? pair(`metrics.name.${name}`) : [name, name]);
const lineName = (line) => {
  if (line.label) return line.label;
  const text = say(`metrics.line.${line.kind}`, { index: line.index, name: line.name });
  return line.name && line.kind !== 'device' ? `${text} ${line.name}` : text;
};

/** The values of all lines at the places that any of them has. */
const table = (lines) => {
  const places = [...new Set(lines.flatMap((line) => line.x))].sort((one, other) => one - other);
  const index = new Map(places.map((place, at) => [place, at]));
  const columns = lines.map((line) => {
    const column = new Array(places.length).fill(null);
    line.x.forEach((place, at) => { column[index.get(place)] = line.y[at]; });
    return column;
  });
  return [places, ...columns];
};

const options = (chart, width) => ({
  width,
  height: HEIGHT,
  cursor: { drag: { x: true, y: false }, sync: { key: chart.x }, points: { size: 5 } },
  scales: { x: { time: false } },
  legend: { live: true },
  series: [
    { label: say(`metrics.${chart.x}`), value: (_, value) => (value === null || value === undefined ? '–' : chart.x === 'time' ? clock(value) : figure(value)) },
    ...chart.lines.map((line, at) => ({
      label: lineName(line),
      stroke: line.slow ? colour('--bad') : colour(SERIES[at % SERIES.length]),
      width: line.slow ? 2.5 : 1.5,
      dash: line.dashed ? [5, 4] : undefined,
      spanGaps: true,
      points: { show: line.x.length < 3 },
      value: (_, value) => figure(value),
    })),
  ],
  axes: [
    { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, values: (_, ticks) => ticks.map((tick) => (chart.x === 'time' ? clock(tick) : figure(tick))), size: 30 },
    { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, values: (_, ticks) => ticks.map(figure), size: 62 },
  ],
});

export class Plot {
  constructor(chart) {
    this.heading = h('h3');
    this.note = h('p', { class: 'note slow' });
    this.place = h('div', { role: 'img' });
    this.element = h('figure', { class: 'plot', 'data-chart': chart.name }, this.heading, this.place, this.note);
    this.chart = chart;
    this.key = '';
  }

  /** Draws it once its element has a place, or draws new values; the range that was chosen stays. */
  update(chart) {
    this.chart = chart;
    const key = JSON.stringify([isChinese(), root.dataset.theme, chart.x, chart.lines.map((line) => [line.kind, line.index, line.name, line.slow])]);
    const data = table(chart.lines);
    if (this.plot && key === this.key) {
      const { min, max } = this.plot.scales.x;
      const before = this.plot.data[0];
      const isZoomed = before.length && (min > before[0] || max < before[before.length - 1]);
      this.plot.setData(data, !isZoomed);
      if (isZoomed) this.plot.setScale('x', { min, max });
    } else {
      this.plot?.destroy();
      this.plot = new uPlot(options(chart, this.place.clientWidth || 400), data, this.place);
      this.key = key;
    }
    this.describe();
  }

  describe() {
    const [english, chinese] = named(this.chart.name);
    const unit = this.chart.unit ? ` (${this.chart.unit})` : '';
    this.heading.replaceChildren(h('bdi', { class: 'en', lang: 'en' }, english + unit), h('bdi', { class: 'zh', lang: 'zh-CN' }, chinese + unit));
    this.place.setAttribute('aria-label', say('metrics.chart', { name: [english, chinese] }));
    const notes = [];
    if (this.chart.slow.length) notes.push(h('span', { 'data-slow': this.chart.slow.join(' ') }, '▲ ', phrase('metrics.slow', { ranks: this.chart.slow.slice(0, 12).join(', ') + (this.chart.slow.length > 12 ? ' …' : '') })), ' ');
    if (this.chart.left_out) notes.push(phrase('metrics.left_out', { count: this.chart.left_out }));
    this.note.replaceChildren(...notes);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width && Math.abs(width - this.plot.width) > 2) this.plot.setSize({ width, height: HEIGHT });
  }

  remove() {
    this.plot?.destroy();
    this.element.remove();
  }
}

/** Draws charts in a place, keeping those that are there already. */
export const drawAll = (place, plots, charts) => {
  for (const [name, plot] of plots) if (!charts.some((chart) => chart.name === name)) { plot.remove(); plots.delete(name); }
  for (const chart of charts) {
    if (!plots.has(chart.name)) {
      plots.set(chart.name, new Plot(chart));
      place.append(plots.get(chart.name).element);
    }
    plots.get(chart.name).update(chart);
  }
};
