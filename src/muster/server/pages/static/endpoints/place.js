// Where the terminal of a job's page is: the choice of a rank, what is to be said of it, and how it is closed.
import { $, phrase, root } from '../dom.js';
import { get, run as path, trying } from '../api.js';
import { openTerminal } from './terminal.js';

const OVER = ['stopping', 'succeeded', 'failed', 'stopped', 'lost', 'damaged'];

/** Colours and letters of the page, in the look that the viewer chose. */
const colours = () => {
  const of = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  return { background: of('--term'), foreground: of('--term-ink'), cursor: of('--term-ink'), cursorAccent: of('--term'), selectionBackground: '#7aa2d655' };
};

/** Lets a section of a page have a terminal at a time. */
export const terminalPlace = (section, id) => {
  const [bar, said, close, place] = ['[data-terminal-bar]', '[data-said]', '[data-close-terminal]', '[data-place]'].map((one) => $(one, section));
  let opened = null; // or the terminal
  let shell = ''; // nothing, going, or over
  const say = (key, values) => said.replaceChildren(phrase(`terminal.${key}`, values));
  const controls = () => $('[data-terminal]', section); // which the server makes anew now and then
  const allow = () => { if (controls()) controls().hidden = shell !== ''; };

  const ended = async (code, reason) => {
    shell = 'over';
    const run = await get(path(id)).catch(() => null);
    if (run && OVER.includes(run.state)) say('run_ended');
    else if (reason) say('refused', { reason });
    else if (code === null) say('lost');
    else say('over', { code });
  };

  const leave = () => {
    opened?.close();
    [opened, shell] = [null, ''];
    place.replaceChildren();
    [bar.hidden, place.hidden] = [true, true];
    allow();
    $('[data-open-terminal]', section)?.focus();
  };

  const open = async () => {
    if (shell) return;
    const rank = Number($('[data-rank]', section)?.value ?? 0);
    shell = 'going';
    allow();
    [bar.hidden, place.hidden] = [false, false];
    say('opening');
    try {
      const font = getComputedStyle($('code', section.parentElement)).fontFamily;
      opened = await openTerminal(place, id, rank, { onEnd: ended, onLeave: () => close.focus(), theme: colours(), fontFamily: font, fontSize: 13 });
    } catch (error) {
      leave();
      throw error;
    }
    if (shell === 'going') say('going', { rank });
    opened.focus();
  };

  section.addEventListener('submit', (event) => {
    event.preventDefault();
    trying(open);
  });
  section.addEventListener('rendered', allow);
  close.addEventListener('click', leave);
  document.addEventListener('theme', () => opened?.paint(colours()));
  document.addEventListener('job-ended', () => { if (shell === 'over') say('run_ended'); });
  if (location.hash === '#terminal' && controls()) trying(open);
};
