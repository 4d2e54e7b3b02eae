'use strict';
// Figures of the page: uPlot draws lines, hooks draw intervals and single runs.
const COLOURS = 8;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 2], [12, 4], [6, 2, 2, 2, 2, 2]];
// Marks on a line of points, in units of its size.
const SHAPES = [
  (p, x, y, r) => { p.moveTo(x + r, y); p.arc(x, y, r, 0, 2 * Math.PI); },
  (p, x, y, r) => p.rect(x - r, y - r, 2 * r, 2 * r),
  (p, x, y, r) => polygon(p, [[x, y - 1.2 * r], [x + 1.2 * r, y + r], [x - 1.2 * r, y + r]]),
  (p, x, y, r) => polygon(p, [[x, y - 1.4 * r], [x + 1.4 * r, y], [x, y + 1.4 * r], [x - 1.4 * r, y]]),
  (p, x, y, r) => polygon(p, [[x, y + 1.2 * r], [x + 1.2 * r, y - r], [x - 1.2 * r, y - r]]),
  (p, x, y, r) => { p.rect(x - 1.4 * r, y - 0.4 * r, 2.8 * r, 0.8 * r); p.rect(x - 0.4 * r, y - 1.4 * r, 0.8 * r, 2.8 * r); },
  (p, x, y, r) => polygon(p, [[x - 1.4 * r, y - r], [x + 1.4 * r, y - r], [x, y + 0.2 * r], [x + 1.4 * r, y + r], [x - 1.4 * r, y + r], [x, y - 0.2 * r]]),
  (p, x, y, r) => p.rect(x - 1.3 * r, y - 0.5 * r, 2.6 * r, r),
];
function polygon(path, corners) {
  corners.forEach(([x, y], at) => (at ? path.lineTo(x, y) : path.moveTo(x, y)));
  path.closePath();
}

// Times as tables print them: three digits and a unit.
const UNITS = [[120, 1, 's'], [7200, 60, 'min'], [172800, 3600, 'h'], [Infinity, 86400, 'd']];
function span(seconds) {
  const [, scale, unit] = UNITS.find(([most]) => Math.abs(seconds) < most);
  const value = seconds / scale;
  const digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  const text = value.toFixed(digits);
  return `${Number(text) === 0 ? text.replace('-', '') : text} ${unit}`;
}
function number(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}
// A value in its unit: s, share, times, count, gpu-h.
function said(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (unit === 's') return span(value);
  if (unit === 'share') return `${(100 * value).toFixed(1)} %`;
  if (unit === 'gpu-h') return `${number(value)} GPU-h`;
  if (unit === 'change') {
    const text = (100 * value).toFixed(1);
    return Number(text) === 0 ? '0.0 %' : `${value > 0 ? '+' : ''}${text} %`;
  }
  return number(value);
}

// Marks of axes in seconds: those that people read.
const TIMES = [1e-3, 1e-2, 0.1, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18000, 36000, 86400, 172800, 432000,
  864000, 1728000, 4320000, 8640000, 1.728e7, 4.32e7, 8.64e7, 8.64e8, 8.64e9];
const COARSE = new Set([1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 86400, 864000, 8640000, 8.64e7, 8.64e8, 8.64e9]);
function mark(seconds) {
  const whole = (scale) => Math.abs(seconds) >= scale && Math.abs((seconds / scale) * 2 - Math.round((seconds / scale) * 2)) < 1e-9;
  const [scale, unit] = whole(86400) ? [86400, 'd'] : whole(3600) ? [3600, 'h'] : whole(60) ? [60, 'min'] : seconds >= 86400 ? [86400, 'd'] : seconds >= 3600 ? [3600, 'h'] : seconds >= 60 ? [60, 'min'] : seconds >= 0.1 || seconds === 0 ? [1, 's'] : [1e-3, 'ms'];
  return `${Number((seconds / scale).toPrecision(4))} ${unit}`;
}
function timeMarks(least, most, logarithmic) {
  if (logarithmic) {
    const on = TIMES.filter((at) => at >= least && at <= most);
    const coarse = on.filter((at) => COARSE.has(at));
    if (on.length >= 2) return coarse.length >= 4 ? coarse : on;
  }
  // About six, in steps of which people count time.
  // Those that divide days: nobody reads 0.4167 d.
  const steps = [...TIMES, 10800, 21600, 43200, 604800].filter((one) => one !== 18000 && one !== 36000).sort((a, b) => a - b);
  const step = steps.find((one) => (most - least) / one <= 7) ?? 8.64e9;
  const marks = [];
  for (let at = Math.ceil(least / step) * step; at <= most + step * 1e-9; at += step) marks.push(at);
  return marks;
}

// Marks of numbers above 0 by factors: 1, 2 and 5 of each power of ten, of many powers these alone; where they are too near for two of those, in equal steps.
function factorMarks(least, most) {
  const marks = [];
  for (let power = Math.floor(Math.log10(least)); 10 ** power <= most; power += 1) {
    for (const one of [1, 2, 5]) marks.push([one, Number(`${one}e${power}`)]);
  }
  const on = marks.filter(([, at]) => at >= least && at <= most);
  const shown = on.length > 10 ? on.filter(([one]) => one === 1) : on;
  if (shown.length >= 2) return shown.map(([, at]) => at);
  const step = 10 ** Math.floor(Math.log10(most - least));
  const steps = [];
  for (let at = Math.ceil(least / step) * step; at <= most; at += step) steps.push(Number(at.toPrecision(12)));
  return steps;
}

const page = JSON.parse(document.getElementById('data').textContent);
const labels = page.labels;
// What the reader chose, for every figure at once.
const chosen = { hidden: new Set(), baseline: -1, point: page.points[0] ?? [] };
const redraws = [];
function redraw() {
  for (const one of redraws) one();
}
const colour = (at) => getComputedStyle(document.documentElement).getPropertyValue(`--s${at % COLOURS}`).trim();
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && typeof value !== 'string') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};

// The mark and the dash of a policy, for legends.
function swatch(at) {
  const canvas = element('canvas', { width: 56, height: 20, class: 'swatch' });
  const draw = canvas.getContext('2d');
  draw.strokeStyle = draw.fillStyle = colour(at);
  draw.lineWidth = 4;
  draw.setLineDash(DASHES[at % DASHES.length].map((one) => one * 2));
  draw.beginPath();
  draw.moveTo(0, 10);
  draw.lineTo(56, 10);
  draw.stroke();
  const path = new Path2D();
  SHAPES[at % SHAPES.length](path, 28, 10, 6);
  draw.fill(path);
  return canvas;
}

// Whether a place of the x axis is shown, where a part of it is.
const inSight = (u, x) => x >= u.scales.x.min && x <= u.scales.x.max;

// An instant of UTC, as exactly as a part of so many seconds asks for.
function date(figure, seconds, wide) {
  const text = new Date((figure.origin + seconds) * 1000).toISOString();
  return wide > 4 * 86400 ? text.slice(0, 10) : text.slice(5, 16).replace('T', ' ');
}
const isTime = (figure) => figure.axis === 'time' || figure.axis === 'seconds';

// A figure: {title, x, y, unit, axis: linear | log | seconds | time (seconds, by factors) | names, names, steps, range, part, xs, lines: [{label, ys, half, runs}]}.
// `part`: a distribution function, which has a tail. `absolute`: never relative to a baseline.
class Chart {
  constructor(place, figure) {
    this.place = place;
    this.figure = figure;
    this.state = { logX: figure.axis === 'log' || figure.axis === 'time', logY: false, tail: false };
    this.legend = element('div', { class: 'legend' });
    this.tools = element('div', { class: 'tools' });
    this.plot = element('div', { class: 'plot', tabindex: '0', role: 'application' });
    this.spoken = element('p', { class: 'spoken', 'aria-live': 'polite' });
    this.data = element('details', { class: 'data' }, element('summary', {}, 'Data as a table'));
    this.data.addEventListener('toggle', () => this.table());
    place.replaceChildren(this.legend, this.tools, this.plot, this.spoken, this.data);
    this.plot.addEventListener('keydown', (event) => this.key(event));
    const width = () => Math.max(240, this.plot.clientWidth);
    new ResizeObserver(() => {
      if (this.drawn && Math.abs(this.drawn.width - width()) > 1) this.drawn.setSize({ width: width(), height: this.height() });
    }).observe(this.plot);
    redraws.push(() => this.draw());
    this.draw();
  }

  height() {
    return innerWidth < 520 ? 260 : 320;
  }

  shows(next) {
    this.figure = next;
    this.draw();
  }

  // The lines as they are drawn: relative to the baseline's, or as tails.
  lines() {
    const { lines, part } = this.figure;
    const base = chosen.baseline >= 0 && !part && !this.figure.paired && !this.figure.absolute ? lines.find((line) => line.label === chosen.baseline) : null;
    this.relative = Boolean(base);
    return lines.map((line) => {
      const shown = !chosen.hidden.has(line.label);
      let { ys, half } = line;
      if (base) {
        const ratio = (y, at) => (y === null || !base.ys[at] ? null : y / base.ys[at]);
        [ys, half] = [ys.map(ratio), null];
      }
      if (part && this.state.tail) ys = ys.map((y) => (y === null || y >= 1 ? null : 1 - y));
      return { ...line, ys, half, shown };
    });
  }

  draw() {
    if (this.place.closest('[hidden]')) return;
    this.drawn?.destroy();
    const { figure, state } = this;
    const lines = this.lines();
    this.buttons(lines);
    this.plot.setAttribute('aria-label', `${figure.title}. Left and right arrow keys read the values out.`);
    const seen = lines.filter((line) => line.shown && line.ys.some((y) => y !== null));
    const names = figure.axis === 'names' ? figure.names : null;
    if (!seen.length) {
      this.drawn = null;
      const why = figure.paired ? 'no ratio, since a value of the baseline is 0 or no seed is on both sides' : 'no result';
      this.plot.replaceChildren(element('p', {}, `Nothing to draw: ${why}, or every policy is switched off.`));
      this.table();
      return;
    }
    this.plot.replaceChildren();
    const unit = this.relative ? 'times' : figure.unit;
    const logY = (state.logY && !figure.paired) || (figure.part && state.tail);
    const positive = (values) => values.filter((y) => y !== null && (!logY || y > 0));
    const all = seen.flatMap((line) => {
      const ends = line.half ? line.ys.flatMap((y, at) => (y === null || !line.half[at] ? [] : [y - line.half[at], y + line.half[at]])) : [];
      return positive([...line.ys, ...ends, ...(line.runs ?? []).flat()]);
    });
    let [least, most] = [Math.min(...all), Math.max(...all)];
    if (!all.length) [least, most] = [logY ? 0.1 : 0, 1];
    if (!logY && !figure.paired && least >= 0 && least < 0.6 * most) least = 0;
    if (figure.range && !this.relative && !logY) [least, most] = figure.range;
    const room = logY ? 1.1 : (most - least || Math.abs(most) || 1) * 0.05;
    const yRange = logY ? [least / room, most * room] : [least === 0 ? 0 : least - room, figure.range && !this.relative ? most + room / 3 : most + room];
    const xs = figure.xs;
    const xLog = !names && state.logX && xs[0] > 0;
    const [first, last] = [xs[0], xs[xs.length - 1]];
    // Of few points those at the ends are seen whole.
    const few = !names && xs.length <= 30;
    const side = few ? (xLog ? (last / first) ** 0.04 : (last - first || 1) * 0.04) : 0;
    const xRange = names ? [-0.5, names.length - 0.5] : few ? (xLog ? [first / side, last * side] : [first - side, last + side]) : [first, last];
    // Marks of an axis of times have one unit.
    const [, timeScale, timeUnit] = UNITS.find(([most]) => yRange[1] < most);
    const timeMark = (y) => (logY ? mark(y) : `${Number((y / timeScale).toPrecision(4))} ${timeUnit}`);
    const soft = ink('soft');
    const font = '12px system-ui, sans-serif';
    const axis = { stroke: ink('ink'), font, labelFont: font, grid: { stroke: ink('grid'), width: 1 }, ticks: { stroke: soft, width: 1, size: 5 }, labelSize: 22 };
    const crowded = names && names.length * Math.max(...names.map((name) => name.length)) * 7 > this.plot.clientWidth - 70;
    const xMarks = (u, at, from, to) => {
      if (names) return names.map((_, at) => at);
      if (figure.origin) return timeMarks(from + figure.origin, to + figure.origin, false).map((mark) => mark - figure.origin);
      if (isTime(figure)) return timeMarks(from, to, xLog);
      return factorMarks(from, to);
    };
    // Those of the marks that are far enough from each other to be read.
    const apart = (marks, from, to) => {
      const part = (at) => (xLog ? Math.log(at / from) / Math.log(to / from) : (at - from) / (to - from));
      const [room, least] = [Math.max(160, this.plot.clientWidth - 80), names ? (crowded ? 15 : 0) : figure.origin ? 84 : 52];
      let end = -Infinity;
      return marks.filter((at) => {
        const place = part(at) * room;
        if (place - end < least) return false;
        end = place;
        return true;
      });
    };
    const placed = names || isTime(figure) || xLog;
    const longest = names ? Math.max(...names.map((name) => Math.min(name.length, 24))) : 0;
    const options = {
      width: Math.max(240, this.plot.clientWidth),
      height: this.height() + (crowded ? Math.min(120, longest * 4.5) : 0),
      legend: { show: false },
      cursor: { drag: { x: !names, y: false, uni: 8 }, focus: { prox: 24 }, points: { size: 7 } },
      focus: { alpha: 0.35 },
      scales: { x: { time: false, distr: xLog ? 3 : 1, range: (u, from, to) => (u.zoomed ? [from, to] : xRange) }, y: { distr: logY ? 3 : 1, range: () => yRange } },
      axes: [
        { ...axis, label: figure.x, rotate: crowded ? -40 : 0, size: crowded ? 30 + Math.min(120, longest * 5) : 40, grid: { ...axis.grid, show: !names },
          ...(placed ? { splits: (u, at, from, to) => apart(xMarks(u, at, from, to), from, to), filter: (u, marks) => marks, values: (u, marks) => marks.map((at) => (names ? (names[at] ?? '').slice(0, 24) : figure.origin ? date(figure, at, u.scales.x.max - u.scales.x.min) : isTime(figure) ? mark(at) : number(at))) } : {}) },
        { ...axis, label: this.relative ? `${figure.y}, relative to ${labels[chosen.baseline]}` : figure.part && state.tail ? 'part of the jobs beyond' : figure.y, size: 62,
          values: (u, marks) => marks.map((y) => (y === null ? null : this.relative ? `${number(y)}×` : unit === 's' ? timeMark(y) : said(y, unit))),
          ...(unit === 's' || logY ? { splits: (u, at, from, to) => (unit === 's' ? timeMarks(from, to, logY) : factorMarks(from, to)), filter: (u, marks) => marks } : {}) },
      ],
      series: [{}, ...lines.map((line, at) => this.series(line, at, lines.length, names))],
      hooks: {
        draw: [(u) => this.intervals(u, lines, names)],
        setCursor: [(u) => this.read(u.cursor.idx)],
        setSelect: [(u) => { if (u.select.width > 0) u.zoomed = true; }],
      },
    };
    this.drawn = new uPlot(options, [xs, ...lines.map((line) => line.ys)], this.plot);
    const over = this.plot.querySelector('.u-over');
    over.addEventListener('dblclick', () => this.reset());
    this.table();
  }

  reset() {
    if (!this.drawn) return;
    this.drawn.zoomed = false;
    this.draw();
  }

  series(line, at, count, names) {
    const label = line.label;
    const shape = SHAPES[label % SHAPES.length];
    const points = (u, series, from, to, some) => {
      const path = new Path2D();
      for (const index of some ?? line.ys.keys()) {
        const y = line.ys[index];
        if (y === null || y === undefined || (!names && !inSight(u, u.data[0][index]))) continue;
        const [x, top] = this.at(u, index, y, at, count, names);
        shape(path, x, top, 3.2 * devicePixelRatio);
      }
      return { stroke: path, fill: path };
    };
    // A mark on a line of many points each so often, where it differs from those of other lines.
    const few = (u, series, show) => {
      if (names || line.ys.length <= 30) return null;
      const step = Math.max(1, Math.round(line.ys.length / 8));
      return [...line.ys.keys()].filter((index) => (index + Math.round((step * at) / count)) % step === 0);
    };
    return {
      label: labels[label] ?? '',
      show: line.shown,
      stroke: colour(label),
      width: 2,
      dash: DASHES[label % DASHES.length],
      paths: names ? () => null : this.figure.steps ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear(),
      points: { show: true, fill: colour(label), stroke: colour(label), filter: few, paths: points },
      spanGaps: false,
    };
  }

  // Where a value is on the canvas; of several at one name a little beside each other.
  at(u, index, y, line, count, names) {
    const wide = names ? (u.valToPos(1, 'x', true) - u.valToPos(0, 'x', true)) * 0.7 : 0;
    const beside = names && !this.figure.alone && count > 1 ? (line / (count - 1) - 0.5) * wide : 0;
    return [u.valToPos(u.data[0][index], 'x', true) + beside, u.valToPos(y, 'y', true)];
  }

  intervals(u, lines, names) {
    const context = u.ctx;
    context.save();
    context.beginPath();
    context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    context.clip();
    if (this.relative || this.figure.paired) {
      const y = u.valToPos(this.relative ? 1 : 0, 'y', true);
      context.strokeStyle = ink('soft');
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(u.bbox.left, y);
      context.lineTo(u.bbox.left + u.bbox.width, y);
      context.stroke();
      context.setLineDash([]);
    }
    lines.forEach((line, at) => {
      if (!line.shown) return;
      context.strokeStyle = context.fillStyle = colour(line.label);
      context.lineWidth = 1.5 * devicePixelRatio;
      line.ys.forEach((y, index) => {
        const half = line.half?.[index];
        if (y !== null && half) {
          const [center, low] = this.at(u, index, Math.max(y - half, u.scales.y.distr === 3 ? u.scales.y.min : -Infinity), at, lines.length, names);
          // Beside each other, so that none hides another.
          const x = names ? center : center + (at - (lines.length - 1) / 2) * 4 * devicePixelRatio;
          const [, high] = this.at(u, index, y + half, at, lines.length, names);
          const cap = 4 * devicePixelRatio;
          context.beginPath();
          for (const [a, b, c, d] of [[x, low, x, high], [x - cap, low, x + cap, low], [x - cap, high, x + cap, high]]) {
            context.moveTo(a, b);
            context.lineTo(c, d);
          }
          context.stroke();
        }
        context.globalAlpha = 0.55;
        (line.runs?.[index] ?? []).forEach((one, run, all) => {
          if (one === null) return;
          const [x, top] = this.at(u, index, one, at, lines.length, names);
          const beside = (all.length > 1 ? run / (all.length - 1) + 0.5 : 1) * 14 * devicePixelRatio;
          context.beginPath();
          context.arc(x + beside, top, 2.2 * devicePixelRatio, 0, 2 * Math.PI);
          context.fill();
        });
        context.globalAlpha = 1;
      });
    });
    context.restore();
  }

  // Legend and tools; pressing a policy shows or hides it in every figure.
  buttons(lines) {
    const focused = document.activeElement;
    const was = this.legend.contains(focused) || this.tools.contains(focused) ? focused.dataset.key : null;
    this.values = new Map();
    this.legend.replaceChildren(...lines.map((line) => {
      const value = element('span', { class: 'value' });
      this.values.set(line.label, value);
      const button = element('button', { type: 'button', 'aria-pressed': String(line.shown), 'data-key': `l${line.label}` }, swatch(line.label), labels[line.label], value);
      button.addEventListener('click', () => {
        if (!chosen.hidden.delete(line.label)) chosen.hidden.add(line.label);
        redraw();
      });
      return button;
    }));
    this.where = element('span', { class: 'where' });
    const toggle = (key, text) => {
      const button = element('button', { type: 'button', 'aria-pressed': String(this.state[key]), 'data-key': key }, text);
      button.addEventListener('click', () => {
        this.state[key] = !this.state[key];
        this.draw();
      });
      return button;
    };
    const tools = [];
    if (this.figure.axis !== 'names' && this.figure.xs[0] > 0) tools.push(toggle('logX', 'log x'));
    if (!this.figure.part && !this.figure.paired) tools.push(toggle('logY', 'log y'));
    if (this.figure.part) tools.push(toggle('tail', 'tail'));
    if (this.figure.axis !== 'names') {
      const whole = element('button', { type: 'button', 'data-key': 'whole', title: 'Drag over a part of the figure to see it larger' }, 'all of it');
      whole.addEventListener('click', () => this.reset());
      tools.push(whole);
    }
    this.tools.replaceChildren(...tools, this.where);
    if (was) (this.legend.querySelector(`[data-key="${was}"]`) ?? this.tools.querySelector(`[data-key="${was}"]`))?.focus();
  }

  // The values at a place of the x axis.
  read(index) {
    const { figure } = this;
    const lines = this.drawn && index !== null && index !== undefined ? this.lines() : [];
    for (const value of this.values.values()) value.textContent = '';
    if (!lines.length) {
      this.where.textContent = '';
      return;
    }
    const x = figure.xs[index];
    this.where.textContent = figure.axis === 'names' ? figure.names[x] : figure.origin ? date(figure, x, 0) : isTime(figure) ? span(x) : number(x);
    for (const line of lines) {
      const half = line.half?.[index];
      const text = this.relative ? (line.ys[index] === null ? '–' : `${number(line.ys[index])}×`) : said(line.ys[index], figure.unit);
      const interval = half ? ` ± ${said(half, figure.unit).replace('+', '')}` : '';
      this.values.get(line.label).textContent = line.shown ? text + interval : '';
    }
  }

  key(event) {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way || !this.drawn) return;
    event.preventDefault();
    const xs = this.figure.xs;
    const many = Math.max(1, Math.round(xs.length / 60));
    const next = Math.min(xs.length - 1, Math.max(0, (this.cursor ?? (way > 0 ? -many : xs.length - 1 + many)) + way * many));
    this.cursor = next;
    this.drawn.setCursor({ left: this.drawn.valToPos(xs[next], 'x'), top: 10 });
    this.read(next);
    // What the eye finds in the legend.
    const values = this.lines().filter((line) => line.shown).map((line) => `${labels[line.label]} ${this.values.get(line.label).textContent}`);
    this.spoken.textContent = `${this.where.textContent}: ${values.join(', ')}`;
  }

  // What is drawn, as a table: for screen readers, and to copy.
  table() {
    for (const old of this.data.querySelectorAll('.scroll')) old.remove();
    if (!this.data.open) return;
    const { figure } = this;
    const lines = this.lines().filter((line) => line.shown);
    const cell = (text, word) => element('td', word ? { class: 'word' } : {}, text);
    // Each policy at its own name: one column of values.
    const own = figure.alone ? (at) => lines.filter((line) => line.label === figure.xs[at]) : () => lines;
    const heads = figure.alone ? [figure.y] : lines.map((line) => labels[line.label]);
    const head = element('tr', {}, element('th', { scope: 'col', class: 'word' }, figure.x), ...heads.map((text) => element('th', { scope: 'col' }, text)));
    // Of a line of hundreds of points each so often one.
    const step = Math.max(1, Math.ceil(figure.xs.length / 60));
    const rows = figure.xs.map((x, at) => [x, at]).filter(([, at]) => at % step === 0 && lines.some((line) => line.ys[at] !== null));
    const where = (x) => (figure.axis === 'names' ? figure.names[x] : figure.origin ? date(figure, x, 0) : isTime(figure) ? span(x) : number(x));
    const value = (line, at) => (this.relative ? (line.ys[at] === null ? '–' : `${number(line.ys[at])}×`) : said(line.ys[at], figure.unit) + (line.half?.[at] ? ` ± ${said(line.half[at], figure.unit).replace('+', '')}` : ''));
    const body = rows.map(([x, at]) => element('tr', {}, cell(where(x), true), ...own(at).map((line) => cell(value(line, at)))));
    this.data.append(element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${figure.title}: data` }, element('table', {}, element('thead', {}, head), element('tbody', {}, ...body))));
  }
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
