// Every policy beside every other: the changes of paired seeds as a table, and mean ranks over the points of the sweep.

// The probability that Student's t lies within ± t (Abramowitz and Stegun, 26.7.3 and 26.7.4).
function within(t, freedom) {
  const angle = Math.atan(t / Math.sqrt(freedom));
  const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
  const odd = freedom % 2 === 1;
  let [term, sum] = odd ? [cosine, freedom > 1 ? cosine : 0] : [1, 1];
  for (let power = odd ? 3 : 2; power < freedom - 1; power += 2) {
    term *= (cosine * cosine * (power - 1)) / power;
    sum += term;
  }
  return odd ? (2 / Math.PI) * (angle + sine * sum) : sine * sum;
}

// How likely a mean so far from 0 is by chance; none where there is no test.
function chance(values) {
  const [mean, half] = estimate(values);
  if (half === null || values.every((one) => one === 0)) return null;
  if (half === 0) return 0;
  return 1 - within(Math.abs(mean) / (half / page.t[values.length]), values.length - 1);
}

// Which of several tests are significant at 5 % all together (Holm 1979).
function holm(chances) {
  const order = chances.map((one, at) => at).sort((a, b) => chances[a] - chances[b]);
  const kept = new Set();
  for (const [rank, at] of order.entries()) {
    if (chances[at] > 0.05 / (chances.length - rank)) break;
    kept.add(at);
  }
  return kept;
}

// Above so many policies a table of all pairs is not read.
const PAIRED = 12;

// A row a policy, a column a baseline, at the chosen point; what differs among all pairs of all points is marked, as `compare` does.
function pairs(metric) {
  const tests = [];
  for (const point of page.points) {
    for (const base of labels.keys()) {
      for (let label = base + 1; label < labels.length; label += 1) {
        // Changes one way round are other numbers than the other way: a pair differs where both say so. Where one way has no
        // ratio, a value being 0, the other may have one.
        const ways = [[label, base], [base, label]].map(([a, b]) => chance(changes(metric, a, b, point))).filter((one) => one !== null);
        if (ways.length) tests.push({ key: `${point}:${base}:${label}`, one: Math.max(...ways) });
      }
    }
  }
  const kept = holm(tests.map(({ one }) => one));
  const differs = new Set(tests.filter((test, at) => kept.has(at)).map(({ key }) => key));
  const cell = (label, base) => {
    if (label === base) return element('td', {}, '–');
    const values = changes(metric, label, base, chosen.point);
    const [mean, half] = estimate(values);
    const marked = differs.has(`${chosen.point}:${Math.min(label, base)}:${Math.max(label, base)}`);
    const has = (of) => runs(metric, of, chosen.point).all.length > 0;
    if (mean === null) return element('td', {}, has(label) && has(base) ? `no ratio${marked ? ' *' : ''}` : '?');
    const interval = half === null ? '' : ` ± ${(100 * half).toFixed(1)}`;
    return element('td', marked ? { class: 'differs' } : {}, `${said(mean, 'change')}${interval}${marked ? ' *' : ''}`);
  };
  const head = element('tr', {}, element('th', { scope: 'col', class: 'word' }, 'policy'), ...labels.map((name) => element('th', { scope: 'col' }, `against ${name}`)));
  const row = (name, label) => element('tr', {}, element('th', { scope: 'row', class: 'word' }, name), ...labels.map((other, base) => cell(label, base)));
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...labels.map(row)));
}

// Mean ranks with half of Nemenyi's critical difference on each side: two policies differ where these do not overlap.
function ranked(metric) {
  const at = (value, label) => labels.map((other, index) => (index === label ? value : null));
  const lines = labels.map((name, label) => ({ label, ys: at(metric.ranks[label], label), half: at(page.critical / 2, label) }));
  return {
    title: `Mean rank by ${metric.words} over ${page.points.length} points`, x: 'policy', y: 'mean rank', unit: 'count', axis: 'names', names: labels,
    alone: true, absolute: true, steps: false, range: null, part: false, xs: labels.map((name, label) => label), lines,
  };
}
