// Elements and texts. Everything that comes from others goes through text nodes: nothing here parses HTML.
import { TEXTS } from './texts.js';

export const root = document.documentElement;
export const isChinese = () => root.lang.startsWith('zh');
const fill = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
const at = (values, index) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Array.isArray(value) ? value[index] : value]));

/** A text in the language that is shown. Values that are pairs hold both languages. */
export const say = (key, values = {}) => fill(TEXTS[key][isChinese() ? 1 : 0], at(values, isChinese() ? 1 : 0));

/** The same in both languages, as a pair. */
export const pair = (key, values = {}) => [0, 1].map((index) => fill(TEXTS[key][index], at(values, index)));

/** What stands between backticks, such as a command, as code; unless one of them is part of a name. */
const withCode = (text) => {
  const parts = text.split('`');
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? h('code', {}, part) : part)) : [text];
};

/** The same as elements of which one is shown, so that the language can be switched in place. */
export const phrase = (key, values = {}) => {
  const found = document.createDocumentFragment();
  const [english, chinese] = pair(key, values);
  if (english === chinese) found.append(...withCode(english));
  else found.append(h('span', { class: 'en', lang: 'en' }, ...withCode(english)), h('span', { class: 'zh', lang: 'zh-CN' }, ...withCode(chinese)));
  return found;
};

/** An element. Attributes that begin with `on` are listeners; those that are null or false are left out. */
export const h = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name in PROPERTIES) element[name] = value;
    else if (value === true) element.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};
const PROPERTIES = { checked: 1, disabled: 1, hidden: 1, value: 1 };

/** Attributes in the language that is shown, which `shell.js` says again when it is switched. */
export const label = (element, attribute, key) => {
  const others = (element.dataset.say || '').split(';').filter((one) => one && !one.startsWith(`${attribute}=`));
  element.dataset.say = [...others, `${attribute}=${key}`].join(';');
  apply(element);
  return element;
};

export const apply = (element) => {
  for (const one of element.dataset.say.split(';')) {
    const [attribute, key] = one.split('=');
    if (attribute === 'text') element.textContent = say(key);
    else element.setAttribute(attribute, say(key));
  }
};

export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

export const stateMark = (state) => h('span', { class: `state ${state}`, 'data-state': state }, phrase(`state.${state}` in TEXTS ? `state.${state}` : 'state.unknown'));

const dayAndTime = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', hour12: false };
/** A time in the zone of the viewer, such as 2026-11-18 14:30. */
export const localTime = (seconds, withSeconds = false) => {
  const options = withSeconds ? { ...dayAndTime, second: '2-digit' } : dayAndTime;
  return new Intl.DateTimeFormat('sv-SE', options).format(new Date(seconds * 1000));
};
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || '';
export const time = (seconds) => {
  if (seconds === null || seconds === undefined) return h('span', {}, '–');
  return h('time', { datetime: new Date(seconds * 1000).toISOString(), title: zone() }, localTime(seconds));
};

/** How long something took, in both languages. */
export const duration = (seconds) => {
  const whole = Math.max(0, Math.round(seconds));
  const [d, hours, min, s] = [Math.floor(whole / 86400), Math.floor(whole / 3600), Math.floor(whole / 60), whole];
  if (whole < 60) return pair('time.s', { s });
  if (whole < 3600) return pair('time.min', { min, s: whole % 60 });
  if (whole < 86400) return pair('time.h', { h: hours, min: min % 60 });
  return pair('time.d', { d, h: hours % 24 });
};
export const durationText = (seconds) => {
  const [english, chinese] = duration(seconds);
  return [h('span', { class: 'en', lang: 'en' }, english), h('span', { class: 'zh', lang: 'zh-CN' }, chinese)];
};

export const bytes = (count) => {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let [value, unit] = [count, 0];
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
};

export const cookie = (name, value) => { document.cookie = `${name}=${value};path=/;max-age=31536000;samesite=lax`; };

/** Calls a function at most once in so many milliseconds, and after the last call. */
export const atMost = (milliseconds, action) => {
  let timer = 0;
  return (...given) => { if (!timer) timer = setTimeout(() => { timer = 0; action(...given); }, milliseconds); };
};
/** Calls a function once nothing more came for so many milliseconds. */
export const settled = (milliseconds, action) => {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => action(...given), milliseconds); };
};
