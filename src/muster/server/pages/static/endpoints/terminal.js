// A terminal beside a rank, in an element of a page. xterm.js is loaded when the first one is opened.
import { csrf } from '../api.js';

const SIZE_PAUSE = 100; // milliseconds of quiet after which a new size is sent
const REFUSED = 4000; // with which the server closes what it does not allow

/** Lets xterm.js have its own styles under a policy without inline ones: texts of <style> become adopted style sheets. */
const withAdoptedStyles = (action) => {
  const create = document.createElement;
  document.createElement = function createElement(name, ...rest) {
    if (String(name).toLowerCase() !== 'style') return create.call(document, name, ...rest);
    const made = create.call(document, 'template'); // which shows nothing
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    Object.defineProperty(made, 'textContent', { set: (text) => sheet.replaceSync(text), get: () => '' });
    return made;
  };
  try { return action(); } finally { delete document.createElement; }
};

/** Colours of letters come as `style` attributes, which the policy refuses too; the same through CSSOM is allowed. */
HTMLSpanElement.prototype.setAttribute = function setAttribute(name, value) {
  if (name === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

const loaded = async () => {
  const address = (name) => new URL(`../vendor/${name}`, import.meta.url).href;
  if (!document.querySelector('link[data-terminal]')) {
    const style = Object.assign(document.createElement('link'), { rel: 'stylesheet', href: address('xterm.css') });
    style.dataset.terminal = '';
    const there = new Promise((resolve) => { style.onload = resolve; style.onerror = resolve; }); // sizes are measured with it
    document.head.append(style);
    await there;
  }
  const [{ Terminal }, { FitAddon }] = await Promise.all([import(address('xterm.mjs')), import(address('addon-fit.mjs'))]);
  return { Terminal, FitAddon };
};

/**
 * Opens a shell beside a rank in an element. `onEnd` is called once, with its exit code, or with null and the reason; `onLeave`
 * when Shift+F6 is pressed, since the Tab key goes to the shell. Returns an object with `focus()`, `paint(theme)` and `close()`.
 */
export const openTerminal = async (element, run, rank = 0, { onEnd = () => {}, onLeave = () => {}, ...look } = {}) => {
  const { Terminal, FitAddon } = await loaded();
  const terminal = new Terminal({ cursorBlink: true, scrollback: 5000, screenReaderMode: true, minimumContrastRatio: 4.5, ...look });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  withAdoptedStyles(() => terminal.open(element));
  fit.fit();
  const query = new URLSearchParams({ rank, rows: terminal.rows, columns: terminal.cols });
  const origin = location.origin.replace(/^http/, 'ws');
  const socket = new WebSocket(`${origin}/api/v1/runs/${encodeURIComponent(run)}/terminal?${query}`);
  socket.binaryType = 'arraybuffer';
  const encoder = new TextEncoder();
  const send = (data) => { if (socket.readyState === WebSocket.OPEN) socket.send(data); };
  const binary = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  let code = null;
  let timer = 0;

  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== 'F6' || !event.shiftKey) return true;
    event.preventDefault();
    if (event.type === 'keydown') onLeave();
    return false;
  });
  terminal.onData((text) => send(encoder.encode(text)));
  terminal.onBinary((text) => send(binary(text)));
  terminal.onResize(({ rows, cols }) => {
    clearTimeout(timer);
    timer = setTimeout(() => send(JSON.stringify({ rows, columns: cols })), SIZE_PAUSE);
  });
  const watch = new ResizeObserver(() => { if (element.isConnected) fit.fit(); });
  watch.observe(element);

  socket.addEventListener('message', ({ data }) => {
    if (typeof data === 'string') code = JSON.parse(data).code;
    else terminal.write(new Uint8Array(data));
  });
  socket.addEventListener('close', (event) => {
    watch.disconnect();
    terminal.options.disableStdin = true;
    onEnd(code, event.code === REFUSED ? event.reason : '');
  });
  await new Promise((resolve) => { socket.onopen = resolve; socket.onclose = resolve; }); // keys before would be lost
  return {
    focus: () => terminal.focus(),
    paint: (theme) => { terminal.options.theme = theme; },
    close: () => { socket.close(); watch.disconnect(); terminal.dispose(); },
  };
};

/** Opens an endpoint of a run in a page of its own, which is a stranger to this one. Throws an Error with the reason. */
export const openEndpoint = async (run, name) => {
  const page = window.open('about:blank', '_blank'); // now: later a browser takes it for a pop-up
  if (page) page.opener = null;
  const path = `/api/v1/runs/${encodeURIComponent(run)}/endpoints/${encodeURIComponent(name)}/ticket`;
  const answer = await fetch(path, { method: 'POST', headers: csrf() });
  const found = await answer.json();
  if (!answer.ok) {
    page?.close();
    throw new Error(found.reason);
  }
  if (page) page.location.replace(found.url);
  else location.assign(found.url);
};
