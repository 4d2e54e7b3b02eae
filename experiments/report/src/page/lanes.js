// The GPUs of a run over time: a lane a GPU, bars drawn as SVG when their part of the page is opened.
const WIDTH = 1200;
const LEFT = 96;
const svg = (name, attributes, text) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

const tip = document.getElementById('tip');
let pointed = null;
function hide() {
  pointed?.classList.remove('on');
  pointed = null;
  tip.hidden = true;
}
function say(lines, x, y) {
  tip.replaceChildren(element('b', {}, lines[0]), ...lines.slice(1).map((line) => element('div', {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
  tip.style.top = `${Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18)}px`;
}
// An instant of a run: of UTC where its trace has dates, else since the beginning.
const clock = (run, seconds, wide = 0) => (run.origin ? date(run, seconds, wide) : seconds === 0 ? '0' : span(seconds));

class Lanes {
  constructor(place, run) {
    this.place = place;
    this.run = run;
    this.zoom = 1;
    this.scroll = element('div', { class: 'scroll' });
    const tool = (text, label, change) => {
      const button = element('button', { type: 'button', 'aria-label': label }, text);
      button.addEventListener('click', () => {
        const { scrollLeft, clientWidth, scrollWidth } = this.scroll;
        const middle = (scrollLeft + clientWidth / 2) / scrollWidth;
        this.zoom = Math.min(32, Math.max(1, change(this.zoom)));
        this.draw();
        this.scroll.scrollLeft = middle * this.scroll.scrollWidth - clientWidth / 2;
      });
      return button;
    };
    const tools = element('div', { class: 'tools' }, tool('+', 'Zoom in', (z) => z * 2), tool('−', 'Zoom out', (z) => z / 2), tool('all of it', 'The whole run', () => 1));
    place.replaceChildren(tools, this.scroll);
    this.draw();
  }

  draw() {
    hide();
    const made = this.run.map ? this.map() : this.bars();
    made.style.width = `${100 * this.zoom}%`;
    made.style.minWidth = `${720 * this.zoom}px`;
    this.scroll.replaceChildren(made);
  }

  // Nodes in two shades, and the axis of time.
  frame(rows, tall, names) {
    const wide = LEFT + (WIDTH - LEFT) * this.zoom;
    const foot = 8 + rows * tall;
    const made = svg('svg', { class: 'lanes', viewBox: `0 0 ${wide} ${foot + 30}`, tabindex: 0, role: 'application' });
    let first = 0;
    names.forEach(([name, kind, count], at) => {
      if (first >= rows) return;
      const high = Math.min(count, rows - first) * tall;
      const y = 8 + first * tall;
      made.append(svg('rect', { class: at % 2 ? 'odd' : 'even', x: LEFT, y, width: wide - LEFT, height: high }));
      if (high >= 24) {
        made.append(svg('text', { x: 4, y: y + high / 2 - 2 }, name), svg('text', { class: 'kind', x: 4, y: y + high / 2 + 10 }, kind.slice(0, 14)));
      } else if (high >= 9 || first % Math.ceil(12 / tall) === 0) {
        made.append(svg('text', { x: 4, y: y + high / 2 + 4 }, name));
      }
      first += count;
    });
    const marks = 6 * this.zoom;
    for (let part = 0; part <= marks; part += 1) {
      const anchor = part === 0 ? 'start' : part === marks ? 'end' : 'middle';
      made.append(svg('text', { x: LEFT + ((wide - LEFT) * part) / marks, y: foot + 20, 'text-anchor': anchor }, clock(this.run, (this.run.end * part) / marks, this.run.end / this.zoom)));
    }
    return made;
  }

  bars() {
    const { run } = this;
    const tall = run.lanes.length <= 32 ? 18 : 11;
    const made = this.frame(run.lanes.length, tall, run.nodes.map(([kind, count], at) => [`node ${at}`, kind, count]));
    made.setAttribute('aria-label', 'GPUs over time; arrow keys go from job to job');
    const scale = ((WIDTH - LEFT) * this.zoom) / run.ticks;
    const told = [];
    run.lanes.forEach((rows, gpu) => rows.forEach((bars, row) => {
      const thick = (tall - 2) / rows.length;
      const y = 8 + gpu * tall + 1 + row * thick;
      let from = 0;
      for (let at = 0; at < bars.length; at += 3) {
        from += bars[at];
        const [length, job] = [bars[at + 1], bars[at + 2]];
        const bar = svg('rect', { class: `bar ${job >= 0 ? `b${job % 12}` : 'm'}`, x: (LEFT + from * scale).toFixed(2), y: y.toFixed(2), width: Math.max(length * scale, 0.4).toFixed(2), height: Math.max(thick - 0.6, 0.8).toFixed(2) });
        bar.dataset.i = told.length;
        told.push([gpu, from, from + length, job]);
        made.append(bar);
        from += length;
      }
    }));
    this.told = told;
    this.listen(made);
    return made;
  }

  words([gpu, from, to, job]) {
    const { jobs, end, ticks } = this.run;
    const time = (tick) => clock(this.run, (tick / ticks) * end);
    const when = `${time(from)} to ${time(to)}`;
    if (job < 0) return [`${-job} short stays`, when, `GPU ${gpu}`];
    const [of, wait, jct] = [jobs.of[job], jobs.wait[job], jobs.jct[job]];
    return [
      `job ${page.jobs.id[of]}`, when, `GPU ${gpu}; the job asks for ${page.jobs.gpus[of]}`,
      `submitted at ${clock(this.run, page.jobs.submit[of])}, waited ${wait === null ? '-' : span(wait)}`,
      `${typeof jct === 'number' ? `completed in ${span(jct)}` : jct}, ${jobs.preemptions?.[job] ?? 0} preemptions`,
    ];
  }

  show(bar, x, y) {
    hide();
    pointed = bar;
    bar.classList.add('on');
    say(this.words(this.told[Number(bar.dataset.i)]), x, y);
  }

  listen(made) {
    const at = (event) => {
      const bar = event.target.closest('.bar');
      if (bar) this.show(bar, event.clientX, event.clientY);
      else hide();
    };
    made.addEventListener('pointermove', at);
    // A finger has no hover: a tap shows, and stays until the next one.
    made.addEventListener('pointerdown', at);
    made.addEventListener('pointerleave', (event) => {
      if (event.pointerType === 'mouse') hide();
    });
    made.addEventListener('blur', hide);
    made.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') return hide();
      const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      if (!way) return;
      event.preventDefault();
      const bars = [...made.querySelectorAll('.bar')];
      const place = (bar) => [Number(bar.getAttribute('x')), Number(bar.getAttribute('y'))];
      let next = bars[0];
      if (pointed && made.contains(pointed)) {
        const [x, y] = place(pointed);
        const [across, down] = way;
        // The nearest that way: along the lane first, or the nearest lane.
        const far = (bar) => {
          const [bx, by] = place(bar);
          const [dx, dy] = [(bx - x) * across, (by - y) * down];
          if (across ? dx <= 0 || by !== y : dy <= 0) return Infinity;
          return across ? dx : dy * 1e4 + Math.abs(bx - x);
        };
        next = bars.reduce((best, bar) => (far(bar) < far(best) ? bar : best), pointed);
      }
      if (!next) return;
      next.scrollIntoView({ block: 'nearest', inline: 'nearest' });
      const box = next.getBoundingClientRect();
      this.show(next, box.left, box.bottom);
    });
  }

  // Of many GPUs: how many of each group of nodes are held, a column a stretch of time, one character each.
  map() {
    const { map, end } = this.run;
    const tall = Math.max(4, Math.min(14, 560 / map.rows.length));
    const made = this.frame(map.rows.length, tall, map.names.map((name) => [name, '', 1]));
    made.setAttribute('aria-label', 'Part of the GPUs in use, by nodes and time; the figure “GPUs in use” has the sum');
    const wide = ((WIDTH - LEFT) * this.zoom) / map.rows[0].length;
    map.rows.forEach((cells, row) => {
      // Equal neighbours are one rectangle.
      for (let at = 0; at < cells.length; ) {
        let next = at + 1;
        while (next < cells.length && cells[next] === cells[at]) next += 1;
        const part = parseInt(cells[at], 36) / 35;
        if (part > 0) made.append(svg('rect', { class: 'cell', x: (LEFT + at * wide).toFixed(1), y: (8 + row * tall).toFixed(1), width: ((next - at) * wide).toFixed(1), height: (tall - 0.4).toFixed(1), 'fill-opacity': part.toFixed(2) }));
        at = next;
      }
    });
    const told = (row, column, x, y) => {
      const cell = map.rows[row]?.[column];
      if (cell === undefined) return hide();
      const time = (at) => clock(this.run, (end * at) / map.rows[0].length);
      say([map.names[row], `${time(column)} to ${time(column + 1)}`, `${Math.round((100 * parseInt(cell, 36)) / 35)} % of the GPUs in use`], x, y);
    };
    made.addEventListener('pointermove', (event) => {
      const box = made.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * (LEFT + (WIDTH - LEFT) * this.zoom) - LEFT;
      const row = Math.floor((((event.clientY - box.top) / box.height) * (8 + map.rows.length * tall + 30) - 8) / tall);
      const column = Math.floor(x / wide);
      told(row, column, event.clientX, event.clientY);
    });
    made.addEventListener('pointerleave', hide);
    made.addEventListener('blur', hide);
    // The keyboard goes from one stretch to the next, and from row to row.
    let [row, column] = [0, -1];
    made.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') return hide();
      const way = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!way) return;
      event.preventDefault();
      row = Math.min(map.rows.length - 1, Math.max(0, row + way[0]));
      column = Math.min(map.rows[0].length - 1, Math.max(0, column + way[1]));
      const box = made.getBoundingClientRect();
      const scale = box.width / (LEFT + (WIDTH - LEFT) * this.zoom);
      told(row, column, box.left + (LEFT + (column + 0.5) * wide) * scale, box.top + (8 + (row + 1) * tall) * scale);
    });
    return made;
  }
}

for (const place of document.querySelectorAll('[data-lanes]')) {
  const details = place.closest('details');
  const open = () => {
    if (details.open && !place.firstChild) new Lanes(place, page.timelines[Number(place.dataset.lanes)]);
  };
  details.addEventListener('toggle', open);
  open();
}
