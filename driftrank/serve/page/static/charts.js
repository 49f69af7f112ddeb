// Shows the values of a chart under the pointer. The label of the chart has the same as text.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
let pointer = null; // its place

/** The point of a path that is nearest to a place from 0 to 1000. */
function nearest(path, x) {
  let best = null;
  for (const [, px, py] of path.getAttribute("d").matchAll(/[ML]([\d.]+) ([\d.]+)/g)) {
    if (!best || Math.abs(px - x) < Math.abs(best.x - x)) best = { x: Number(px), y: Number(py) };
  }
  return best;
}

/** Show the values at the pointer, which is over an element. */
function show(element) {
  const svg = element?.closest?.("svg[data-top]");
  if (!svg) { tip.hidden = true; return; }
  const box = svg.getBoundingClientRect();
  const { begin, end, top, bottom } = Object.fromEntries(Object.entries(svg.dataset).map(([k, v]) => [k, Number(v)]));
  const x = ((pointer.x - box.left) / box.width) * 1000;
  const rows = [...svg.querySelectorAll("path.line")].map((path) => {
    const at = nearest(path, x);
    if (!at || Math.abs(at.x - x) > 60) return null;
    const row = document.createElement("p");
    row.className = path.getAttribute("class");
    row.textContent = `${path.textContent}: ${(top - (at.y / 240) * (top - bottom)).toFixed(3)}`;
    return row;
  }).filter(Boolean);
  const when = document.createElement("p");
  when.textContent = new Date((begin + (x / 1000) * (end - begin)) * 1000).toLocaleString();
  tip.replaceChildren(when, ...rows);
  tip.hidden = !rows.length;
  tip.style.left = `${Math.min(pointer.x + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.max(8, pointer.y - tip.offsetHeight - 10)}px`;
}

function moved(event) {
  pointer = { x: event.clientX, y: event.clientY };
  show(event.target);
}

document.addEventListener("pointermove", moved);
document.addEventListener("pointerdown", moved);
document.addEventListener("pointerleave", () => { pointer = null; tip.hidden = true; });
// a pointer that rests over a chart shows what this has become
document.addEventListener("updated", () => { if (pointer) show(document.elementFromPoint(pointer.x, pointer.y)); });
