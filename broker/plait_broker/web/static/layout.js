// Positions of brokers: stress majorisation over distances in links, initialised by classical scaling. So the same
// overlay is always drawn alike, and a new broker moves the others little.

const ROUNDS = 120;
const ROUNDS_WARM = 30;
const STILL = 1e-6; // of a link's length, squared: an invisible step

export function arrange(ids, edges, before) {
  const index = new Map(ids.map((id, at) => [id, at]));
  const far = distances(ids.length, edges.map(([near, to]) => [index.get(near), index.get(to)]));
  const places = before.size ? ids.map((id, at) => before.get(id) ?? started(at, ids.length, edges, id, before)) : scaled(far);
  const x = Float64Array.from(places, (place) => place[0]);
  const y = Float64Array.from(places, (place) => place[1]);
  const weights = far.map((row) => row.map((d) => (d ? 1 / (d * d) : 0)));
  const known = ids.filter((id) => before.has(id)).length;
  const rounds = known === ids.length ? ROUNDS_WARM : ROUNDS;
  for (let round = 0; round < rounds; round += 1) if (improve(x, y, far, weights) < STILL) break;
  level(x, y);
  return new Map(ids.map((id, at) => [id, [x[at], y[at]]]));
}

/** The two main axes of the distances: the first eigenvectors of their centred squares. */
function scaled(far) {
  const n = far.length;
  const means = far.map((row) => row.reduce((sum, d) => sum + d * d, 0) / n);
  const mean = means.reduce((a, b) => a + b, 0) / n;
  const centred = far.map((row, i) => row.map((d, j) => -0.5 * (d * d - means[i] - means[j] + mean)));
  const axes = [];
  for (const turn of [1, 2]) {
    let axis = Float64Array.from(centred, (_, i) => Math.sin(turn * 12.9898 * (i + 1)));
    let length = 0;
    for (let round = 0; round < 60; round += 1) {
      const next = Float64Array.from(centred, (row) => dot(row, axis));
      for (const known of axes) {
        const along = dot(next, known.axis);
        for (let i = 0; i < n; i += 1) next[i] -= along * known.axis[i];
      }
      length = Math.sqrt(dot(next, next));
      axis = next.map((value) => value / (length || 1));
    }
    axes.push({ axis, scale: Math.sqrt(length) });
  }
  return far.map((_, i) => axes.map(({ axis, scale }) => axis[i] * scale + 1e-3 * Math.sin(7.1 * (i + 1))));
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

function started(at, total, edges, id, before) {
  const beside = edges.find((edge) => edge.includes(id) && edge.some((end) => before.has(end)));
  const angle = (2 * Math.PI * at) / total;
  const circle = [Math.cos(angle) * total * 0.16, Math.sin(angle) * total * 0.16];
  if (!beside) return circle;
  const [x, y] = before.get(beside.find((end) => before.has(end)));
  return [x + 0.4 * Math.cos(angle), y + 0.4 * Math.sin(angle)];
}

/** Distances in links between all pairs; unconnected ones are a little longer than all others. */
function distances(total, edges) {
  const beside = Array.from({ length: total }, () => []);
  for (const [near, far] of edges) {
    beside[near].push(far);
    beside[far].push(near);
  }
  const apart = Math.sqrt(total) + 1;
  return beside.map((_, start) => {
    const found = new Float64Array(total).fill(apart);
    found[start] = 0;
    const queue = [start];
    const seen = new Set(queue);
    for (const at of queue) {
      for (const next of beside[at]) {
        if (seen.has(next)) continue;
        seen.add(next);
        found[next] = found[at] + 1;
        queue.push(next);
      }
    }
    return found;
  });
}

/** Run one round; return the longest step, squared. A square root, not Math.hypot, which takes ten times as long. */
function improve(x, y, far, weights) {
  let longest = 0;
  for (let i = 0; i < x.length; i += 1) {
    const [apart, weighing] = [far[i], weights[i]];
    let weight = 0;
    let sx = 0;
    let sy = 0;
    for (let j = 0; j < x.length; j += 1) {
      const w = weighing[j];
      if (i === j || !w) continue;
      const dx = x[i] - x[j];
      const dy = y[i] - y[j];
      const pull = apart[j] / (Math.sqrt(dx * dx + dy * dy) || 1e-6);
      sx += w * (x[j] + pull * dx);
      sy += w * (y[j] + pull * dy);
      weight += w;
    }
    if (weight) {
      longest = Math.max(longest, (sx / weight - x[i]) ** 2 + (sy / weight - y[i]) ** 2);
      x[i] = sx / weight;
      y[i] = sy / weight;
    }
  }
  return longest;
}

/** Turn the longest axis level: screens are wide. */
function level(x, y) {
  const n = x.length || 1;
  const mx = x.reduce((a, b) => a + b, 0) / n;
  const my = y.reduce((a, b) => a + b, 0) / n;
  let xx = 0;
  let yy = 0;
  let xy = 0;
  for (let i = 0; i < x.length; i += 1) {
    x[i] -= mx;
    y[i] -= my;
    xx += x[i] * x[i];
    yy += y[i] * y[i];
    xy += x[i] * y[i];
  }
  if (Math.abs(xy) < 1e-9 && xx >= yy) return;
  const angle = -0.5 * Math.atan2(2 * xy, xx - yy);
  if (Math.abs(xx - yy) < 0.12 * (xx + yy) && Math.abs(xy) < 0.06 * (xx + yy)) return;
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  for (let i = 0; i < x.length; i += 1) [x[i], y[i]] = [c * x[i] - s * y[i], s * x[i] + c * y[i]];
}
