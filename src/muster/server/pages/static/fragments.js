// Parts of pages that the server renders: put in place of what is there, row by row, so that focus and choices stay.
import { $$ } from './dom.js';

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

/** Replaces the rows of a table: those that stay keep their elements, so that focus and choices stay as they are. */
export const replaceRows = async (body, answer) => {
  const made = [...(await parsed(answer, true)).children];
  const known = new Map([...body.children].map((row) => [row.dataset.row, row]));
  body.replaceChildren(...made.map((row) => known.get(row.dataset.row) ?? row));
  told(body);
};
