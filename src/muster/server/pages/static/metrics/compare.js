// Curves of two runs over each other: what both recorded, as the mean of their ranks.
import { $ } from '../dom.js';
import { get, run as path, trying } from '../api.js';
import { id } from '../job.js';
import { drawAll } from './plot.js';

const place = $('[data-curves]');
const other = $('[data-compare]').dataset.compare;
const SOON = 1000; // milliseconds between two looks while long logs are read
const plots = new Map();
let charts = [];

const merged = (first, second) => {
  const names = [...new Set([...first, ...second].map((chart) => chart.name))];
  return names.map((name) => {
    const [mine, theirs] = [first, second].map((all) => all.find((chart) => chart.name === name));
    const sides = [[mine, id, false], [theirs, other, true]].filter(([chart]) => chart && chart.x === (mine ?? theirs).x);
    const lines = sides.flatMap(([chart, label, dashed]) => chart.lines.map((line) => ({ ...line, label, dashed, slow: false })));
    return { ...(mine ?? theirs), lines, slow: [], left_out: 0 };
  });
};

if (place && other) {
  const show = () => trying(async () => {
    const [mine, theirs] = await Promise.all([id, other].map((one) => get(`${path(one)}/series?by=mean`)));
    charts = [...merged(mine.recorded, theirs.recorded), ...merged(mine.sampled, theirs.sampled)];
    $('[data-status]').replaceChildren();
    drawAll(place, plots, charts);
    if (mine.reading || theirs.reading) setTimeout(show, SOON);
  });
  show();
  for (const name of ['language', 'theme']) document.addEventListener(name, () => requestAnimationFrame(() => drawAll(place, plots, charts)));
  addEventListener('resize', () => { for (const plot of plots.values()) plot.resize(); });
}
