// Comfort on top of a page that is complete without it: language switch, tooltips, hiding lines.
(() => {
  'use strict';
  const root = document.documentElement;
  const chinese = () => root.lang.startsWith('zh');
  const words = (element) => (chinese() ? element.dataset.zh : element.dataset.en);

  const remembered = {
    get: () => { try { return location.protocol === 'file:' ? null : localStorage.getItem('muster-language'); } catch { return null; } },
    set: (value) => { try { if (location.protocol !== 'file:') localStorage.setItem('muster-language', value); } catch { /* a private window */ } },
  };

  const speak = (language) => {
    root.lang = language;
    for (const button of document.querySelectorAll('[data-language]')) {
      button.setAttribute('aria-pressed', String(button.dataset.language === language));
    }
  };
  for (const group of document.querySelectorAll('.languages')) group.hidden = false;
  for (const button of document.querySelectorAll('[data-language]')) {
    button.addEventListener('click', () => { speak(button.dataset.language); remembered.set(button.dataset.language); });
  }
  speak(remembered.get() || root.lang);

  for (const button of document.querySelectorAll('.legend button')) {
    button.addEventListener('click', () => {
      const shown = button.getAttribute('aria-pressed') !== 'true';
      button.setAttribute('aria-pressed', String(shown));
      const series = button.closest('figure').querySelector(`.series[data-series="${button.dataset.series}"]`);
      series.classList.toggle('hidden', !shown);
    });
  }

  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  tip.setAttribute('role', 'status');
  document.body.append(tip);

  const place = (x, y) => {
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > root.clientWidth ? x - 14 - box.width : x + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, y - box.height - 10)}px`;
  };
  const hide = () => { tip.hidden = true; for (const mark of document.querySelectorAll('.cursor')) mark.remove(); };

  for (const mark of document.querySelectorAll('rect[data-en]')) {
    mark.addEventListener('pointermove', (event) => { tip.textContent = words(mark); place(event.clientX, event.clientY); });
    mark.addEventListener('pointerleave', hide);
  }

  const number = (value) => value.toLocaleString('en-US', { maximumSignificantDigits: 5 });
  const time = (seconds) => {
    if (seconds < 100) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
    return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, '0')} min`;
  };
  const points = (series) => {
    if (!series.points) {
      const drawn = series.querySelector('.line').getAttribute('d');
      series.points = drawn.split(/[ML]/).slice(1).map((pair) => pair.split(',').map(Number));
    }
    return series.points;
  };
  const nearest = (series, x) => points(series).reduce((best, point) => (!best || Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best), null);

  const read = (svg, x) => {
    const [x0, x1, left, right] = svg.dataset.x.split(' ').map(Number);
    const [y0, y1, bottom, top] = svg.dataset.y.split(' ').map(Number);
    const visible = [...svg.querySelectorAll('.series:not(.hidden)')];
    const found = visible.map((series) => [series, nearest(series, x)]).filter(([, point]) => point);
    if (!found.length) return null;
    const at = found.map(([, point]) => point[0]).reduce((best, one) => (Math.abs(one - x) < Math.abs(best - x) ? one : best));
    const lines = found.filter(([, point]) => Math.abs(point[0] - at) < (right - left) / 40).map(([series, point]) => {
      const value = y0 + ((point[1] - bottom) / (top - bottom)) * (y1 - y0);
      return `${words(series)}: ${number(value)} ${svg.dataset.unit}`.trim();
    });
    return { at, text: [time(x0 + ((at - left) / (right - left)) * (x1 - x0)), ...lines].join('\n') };
  };

  const point = (svg, x, height) => {
    hide();
    const found = read(svg, x);
    if (!found) return;
    const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    cursor.setAttribute('class', 'cursor');
    for (const [name, value] of [['x1', found.at], ['x2', found.at], ['y1', 26], ['y2', svg.viewBox.baseVal.height - 28]]) cursor.setAttribute(name, value);
    svg.append(cursor);
    tip.textContent = found.text;
    const box = svg.getBoundingClientRect();
    place(box.left + (found.at / svg.viewBox.baseVal.width) * box.width, height ?? box.top + box.height / 3);
    svg.at = found.at;
  };

  // The nearest point to the right or left of the one that was read last, at least a few pixels away.
  const beside = (svg, direction) => {
    const all = [...svg.querySelectorAll('.series:not(.hidden)')].flatMap((series) => points(series).map(([x]) => x * direction));
    const from = (svg.at ?? (direction > 0 ? 0 : svg.viewBox.baseVal.width)) * direction;
    const ahead = all.filter((x) => x > from + 4);
    return ahead.length ? Math.min(...ahead) * direction : undefined;
  };

  for (const svg of document.querySelectorAll('svg.lines')) {
    svg.addEventListener('pointermove', (event) => {
      const box = svg.getBoundingClientRect();
      point(svg, ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width, event.clientY);
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') hide();
      if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
      event.preventDefault();
      const next = beside(svg, event.key === 'ArrowRight' ? 1 : -1);
      if (next !== undefined) point(svg, next);
    });
  }
})();
