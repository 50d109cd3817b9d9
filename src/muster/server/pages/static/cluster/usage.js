// Device hours by day, the projects on top of each other, drawn by uPlot.
import uPlot from '../vendor/uPlot.esm.js';
import { $, root, say } from '../dom.js';
import { get, trying } from '../api.js';

const [DAY, MOST, HEIGHT] = [86400, 7, 200];
const place = $('[data-chart]');
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const date = (seconds) => new Date(seconds * 1000).toISOString().slice(5, 10);
const hours = (value) => (value ?? 0).toLocaleString('en-US', { maximumSignificantDigits: 3 });
let [found, plot] = [null, null];

/** Hours by day of the projects that used most; those of the others together. */
const table = ({ items, since, until }) => {
  const totals = new Map();
  for (const one of items) totals.set(one.project, (totals.get(one.project) ?? 0) + one.device_hours);
  const names = [...totals.keys()].sort((one, other) => totals.get(other) - totals.get(one));
  const shown = names.slice(0, names.length > MOST + 1 ? MOST : MOST + 1);
  const first = Math.floor(since / DAY) * DAY;
  const days = Array.from({ length: Math.floor((until - first) / DAY) + 1 }, (_, index) => first + index * DAY);
  const rows = [...shown, ...(shown.length < names.length ? [null] : [])].map(() => days.map(() => 0));
  for (const one of items) {
    const at = shown.indexOf(one.project);
    rows[at < 0 ? rows.length - 1 : at][(one.day - first) / DAY] += one.device_hours;
  }
  return { days, rows, labels: [...shown, ...(shown.length < names.length ? [say('usage.rest')] : [])] };
};

const draw = () => {
  if (!found) return;
  plot?.destroy();
  const { days, rows, labels } = table(found);
  const stacked = rows.map((_, at) => days.map((__, day) => rows.slice(0, at + 1).reduce((sum, row) => sum + row[day], 0)));
  const order = rows.map((_, at) => at).reverse(); // the highest first: the others are drawn over it
  const axis = { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false } };
  plot = new uPlot({
    width: place.clientWidth || 600,
    height: HEIGHT,
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false, range: (_, least, most) => [least - DAY / 2, most + DAY / 2] }, y: { range: (_, least, most) => [0, (most || 1) * 1.05] } },
    series: [
      { label: say('usage.day'), value: (_, value) => (value ? date(value) : '–') },
      ...order.map((at) => ({
        label: labels[at],
        fill: colour(`--s${at}`),
        stroke: colour(`--s${at}`),
        width: 0,
        paths: uPlot.paths.bars({ size: [0.72, 48] }),
        points: { show: false },
        value: (_, __, ___, day) => (day === null || day === undefined ? '–' : hours(rows[at][day])),
      })),
    ],
    axes: [{ ...axis, grid: { show: false }, incrs: [1, 2, 7, 14].map((count) => count * DAY), values: (_, ticks) => ticks.map(date), size: 28 }, { ...axis, size: 56, values: (_, ticks) => ticks.map(hours) }],
  }, [days, ...order.map((at) => stacked[at])], place);
};

if (place) {
  trying(async () => {
    const since = Date.now() / 1000 - Number($('[data-usage]').dataset.weeks) * 7 * DAY;
    found = await get(`/api/v1/usage?by=day&by=project&since=${since}`);
    draw();
  });
  for (const name of ['language', 'theme']) document.addEventListener(name, () => requestAnimationFrame(draw));
  addEventListener('resize', () => { if (plot && Math.abs(place.clientWidth - plot.width) > 2) plot.setSize({ width: place.clientWidth, height: HEIGHT }); });
}
