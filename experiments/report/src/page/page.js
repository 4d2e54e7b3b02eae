// What a reader chooses: the point of the sweep, the baseline, the metric; and tables that sort.
const cellsAt = (point) => {
  const wanted = page.points.findIndex((one) => one.every((value, axis) => value === point[axis]));
  return page.cells.point.flatMap((at, cell) => (at === wanted ? [cell] : []));
};

// Mean and half its 95 % interval, over the runs that differ.
function estimate(values) {
  if (!values.length) return [null, null];
  const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
  if (values.length < 2) return [mean, null];
  const squares = values.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  return [mean, (page.t[values.length] * Math.sqrt(squares / (values.length - 1))) / Math.sqrt(values.length)];
}
// A metric of a policy at a point, run by run.
function runs(metric, label, point) {
  const all = cellsAt(point).filter((cell) => page.cells.label[cell] === label && metric.values[cell] !== null);
  return { all, values: all.filter((cell) => !page.cells.again[cell]).map((cell) => metric.values[cell]) };
}

// What a policy is off a baseline at a point, seed by seed, as `compare` has it; none where a value of the baseline is 0.
function changes(metric, label, base, point) {
  const bySeed = new Map(runs(metric, base, point).all.map((cell) => [page.cells.seed[cell], cell]));
  const pairs = runs(metric, label, point).all.filter((cell) => bySeed.has(page.cells.seed[cell]))
    .map((cell) => [cell, bySeed.get(page.cells.seed[cell])])
    .filter(([cell, other]) => !page.cells.again[cell] || !page.cells.again[other])
    .map(([cell, other]) => [metric.values[cell], metric.values[other]]);
  const ratios = pairs.map(([own, other]) => (own === other ? 0 : own / other - 1));
  return ratios.every(Number.isFinite) ? ratios : [];
}

// Every policy at the chosen point: its runs, their mean and its interval; beside a baseline the changes of paired seeds.
function strips(metric) {
  const base = chosen.baseline;
  const paired = base >= 0;
  const lines = labels.map((name, label) => {
    const values = paired ? changes(metric, label, base, chosen.point) : runs(metric, label, chosen.point).values;
    const [y, half] = estimate(values);
    const at = (value) => labels.map((other, index) => (index === label ? value : null));
    return { label, ys: at(y), half: at(half), runs: at(values.length > 1 ? values : []).map((one) => one ?? []) };
  });
  return {
    title: paired ? `${metric.words}: change against ${labels[base]}, paired by seed` : `${metric.words} by policy`,
    x: 'policy', y: paired ? `change of ${metric.words}` : metric.words, unit: paired ? 'change' : metric.unit, axis: 'names', names: labels, alone: true, paired,
    steps: false, range: null, part: false, xs: labels.map((name, at) => at), lines,
  };
}

// A metric along an axis of the sweep, the others where they are chosen.
function along(metric, axis) {
  const { path, values } = page.axes[axis];
  const numeric = values.every((value) => value.trim() !== '' && Number.isFinite(Number(value)));
  const order = values.map((value, at) => at);
  if (numeric) order.sort((a, b) => Number(values[a]) - Number(values[b]));
  const base = chosen.baseline;
  const paired = base >= 0;
  const lines = labels.map((name, label) => {
    const found = order.map((at) => {
      const point = chosen.point.map((own, other) => (other === axis ? at : own));
      return estimate(paired ? changes(metric, label, base, point) : runs(metric, label, point).values);
    });
    return { label, ys: found.map(([mean]) => mean), half: found.map(([, half]) => half) };
  });
  return {
    title: paired ? `${metric.words} by ${path}: change against ${labels[base]}, paired by seed` : `${metric.words} by ${path}`,
    x: path, y: paired ? `change of ${metric.words}` : metric.words, unit: paired ? 'change' : metric.unit, paired, axis: numeric ? 'linear' : 'names', names: numeric ? null : order.map((at) => values[at]),
    steps: false, range: null, part: false, xs: numeric ? order.map((at) => Number(values[at])) : order, lines,
  };
}

const byId = (id) => document.getElementById(id);
function options(select, texts) {
  select.replaceChildren(...texts.map((text, at) => element('option', { value: String(at) }, text)));
}
const figures = [...document.querySelectorAll('figure[data-figure]')];

// Of the figures that tell jobs apart one is seen.
const [classBy, classShows] = [byId('class-by'), byId('class-shows')];
for (const [select, key] of [[classBy, 'by'], [classShows, 'shows']]) {
  const words = [...new Set(figures.flatMap((figure) => figure.dataset[key] ?? []))];
  select.replaceChildren(...words.map((word) => element('option', { value: word }, word)));
  select.addEventListener('change', seen);
}
byId('classes').hidden = !classBy.options.length;
// Figures are made when they are first seen.
function seen() {
  const at = page.points.findIndex((one) => one.every((value, axis) => value === chosen.point[axis]));
  for (const figure of figures) {
    const of = figure.dataset.point;
    const { by, shows } = figure.dataset;
    figure.hidden = (of !== undefined && Number(of) !== at) || (by !== undefined && (by !== classBy.value || shows !== classShows.value));
    if (!figure.hidden && !figure.chart) figure.chart = new Chart(figure.querySelector('.chart'), page.figures[Number(figure.dataset.figure)]);
  }
  const none = byId('no-point');
  none.hidden = figures.some((figure) => !figure.hidden && figure.dataset.point !== undefined);
}

let changed = () => {};
if (page.metrics.length) {
  const [metric, axis] = [byId('metric'), byId('axis')];
  options(metric, page.metrics.map((one) => one.name));
  metric.value = String(Math.max(0, page.metrics.findIndex((one) => one.name === 'jct_mean_s')));
  const many = page.axes.flatMap(({ values }, at) => (values.length > 1 ? [at] : []));
  options(axis, page.axes.map(({ path }) => path));
  if (many.length) axis.value = String(many[0]);
  axis.closest('label').hidden = many.length < 2;
  let [first, second] = [null, null];
  changed = () => {
    const of = page.metrics[Number(metric.value)];
    byId('metric-about').textContent = of.about;
    const shown = strips(of);
    byId('strips-h').textContent = shown.title;
    if (first) first.shows(shown);
    else first = new Chart(byId('strips'), shown);
    const matrix = byId('pairs').closest('figure');
    matrix.hidden = labels.length < 2 || labels.length > PAIRED;
    if (!matrix.hidden) {
      byId('pairs-h').textContent = `${of.words}: each policy against each`;
      byId('pairs').replaceChildren(pairs(of));
    }
    const board = byId('ranks').closest('figure');
    board.hidden = !of.ranks;
    if (of.ranks) {
      const shown = ranked(of);
      byId('ranks-h').textContent = shown.title;
      board.seen = board.seen ?? new Chart(byId('ranks'), shown);
      board.seen.shows(shown);
    }
    const figure = byId('along').closest('figure');
    figure.hidden = many.length === 0;
    if (figure.hidden) return;
    const curve = along(of, Number(axis.value));
    byId('along-h').textContent = curve.title;
    if (second) second.shows(curve);
    else second = new Chart(byId('along'), curve);
  };
  metric.addEventListener('change', changed);
  axis.addEventListener('change', changed);
}

const points = byId('points');
if (page.points.length) {
  page.axes.forEach(({ path, values }, axis) => {
    if (values.length < 2) return;
    const select = element('select', { id: `point-${axis}` });
    options(select, values);
    select.value = String(chosen.point[axis]);
    points.insertBefore(element('label', {}, `${path} `, select), points.lastElementChild);
    select.addEventListener('change', () => {
      chosen.point = chosen.point.map((own, at) => (at === axis ? Number(select.value) : own));
      seen();
      changed();
    });
  });
  const baseline = byId('baseline');
  options(baseline, ['nothing', ...labels]);
  baseline.addEventListener('change', () => {
    chosen.baseline = Number(baseline.value) - 1;
    changed();
    redraw();
    relative();
  });
  points.hidden = false;
}

// The table of metrics beside the baseline's row of the same point.
function relative() {
  const table = byId('metrics').querySelector('table');
  const words = Number(table.dataset.words);
  const rows = [...table.tBodies[0].rows];
  const key = (row) => [...row.cells].slice(1, words).map((cell) => cell.textContent).join('\n');
  const name = (row) => row.cells[0].textContent;
  const base = labels[chosen.baseline];
  // Rows of other seeds are of other jobs.
  const seeds = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.trim() === 'seeds');
  for (const row of rows) {
    const other = base === undefined ? null : rows.find((one) => name(one) === base && key(one) === key(row));
    [...row.cells].slice(words).forEach((cell) => {
      if (cell.cellIndex === seeds) return;
      cell.dataset.text ??= cell.textContent;
      const [own, their] = [Number(cell.dataset.v), Number(other?.cells[cell.cellIndex].dataset.v)];
      const same = seeds < 0 || !other || other.cells[seeds].textContent === row.cells[seeds].textContent;
      const known = same && other && cell.dataset.v !== undefined && Number.isFinite(their) && their !== 0;
      cell.textContent = base === undefined ? cell.dataset.text : known ? `${(own / their).toFixed(2)}×` : '–';
    });
  }
}

// Sorting: numbers by their value, words by themselves; a second press turns the order.
for (const table of document.querySelectorAll('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {
    const down = head.getAttribute('aria-sort') === 'ascending';
    heads.forEach((other) => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const value = (row) => {
      const cell = row.cells[column];
      return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
    };
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      // What has no number stands last, whichever way.
      if (typeof x !== typeof y) return typeof x === 'number' ? -1 : 1;
      const way = typeof x === 'number' ? x - y : x.localeCompare(y);
      return down ? -way : way;
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(order));
  }));
}
byId('explore').hidden = !page.metrics.length;
seen();
changed();
