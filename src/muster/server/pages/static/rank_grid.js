// The grid of ranks: one stop for the Tab key, arrows within; the first failure is in view when the page opens.
import { $, $$ } from './dom.js';

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };

/** Lets one cell take the focus by Tab. */
const rove = (cells, one) => { for (const cell of cells) cell.tabIndex = cell === one ? 0 : -1; };

/** Prepares the grid below an element; `shows` brings the first failure into view. */
export const prepareRanks = (within, shows = true) => {
  const grid = $('[data-ranks]', within);
  const cells = grid ? $$('.cell', grid) : [];
  if (!cells.length) return;
  const first = $('.cell.first', grid) ?? cells[0];
  rove(cells, first);
  if (shows) grid.scrollTop = Math.max(0, first.offsetTop - grid.offsetTop - grid.clientHeight / 2);
  grid.addEventListener('focusin', (event) => { if (cells.includes(event.target)) rove(cells, event.target); });
  grid.addEventListener('keydown', (event) => {
    const at = cells.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const goal = event.key === 'Home' ? 0 : event.key === 'End' ? cells.length - 1 : at + (STEPS[event.key] ?? 0);
    if (goal === at || !cells[goal]) return;
    event.preventDefault();
    cells[goal].focus();
  });
};
