// Parts of pages that the server renders: put in place of what is there, row by row, so that focus and choices stay.
import { $, $$ } from './dom.js';

const parsed = async (answer, table) => {
  const text = await answer.text(); // of this server's own templates, which escape what they show
  const found = new DOMParser().parseFromString(table ? `<table><tbody>${text}</tbody></table>` : text, 'text/html');
  return table ? found.querySelector('tbody') : found.body;
};
const told = (element) => element.dispatchEvent(new Event('rendered', { bubbles: true }));

/** Replaces the content of an element, and gives the focus back to the same link. */
export const replaceWith = async (element, answer) => {
  const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
  element.replaceChildren(...(await parsed(answer, false)).childNodes);
  if (focused) $$('a', element).find((link) => link.getAttribute('href') === focused)?.focus();
  told(element);
};

/** Replaces the rows of a table: those that stay keep their elements but for some cells, so that focus and choices stay. */
export const replaceRows = async (body, answer, cells = []) => {
  const made = [...(await parsed(answer, true)).children];
  const known = new Map([...body.children].map((row) => [row.dataset.row, row]));
  const kept = made.map((row) => {
    const old = known.get(row.dataset.row);
    for (const name of old ? cells : []) $(`[data-cell=${name}]`, old).replaceWith($(`[data-cell=${name}]`, row));
    return old ?? row;
  });
  if (kept.length !== body.children.length || kept.some((row, at) => row !== body.children[at])) body.replaceChildren(...kept);
  told(body);
};
