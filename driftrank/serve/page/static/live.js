// Keeps the live regions of a page current. Without it a page is complete, but stays as it was loaded.
const status = document.querySelector("[data-status]");
const address = document.body.dataset.stream;
const version = document.body.dataset.version;
let source = null;
let again = 0;

function say(state, text) {
  const shown = status?.querySelector("[data-text]");
  if (shown && shown.textContent !== text) {
    status.dataset.state = state;
    shown.textContent = text;
  }
}

/** The focused element of a region, as a way to find it again after the region was replaced. */
function focusIn(region) {
  const element = document.activeElement;
  if (!element || !region.contains(element)) return null;
  const all = [...region.querySelectorAll("a, button, input, summary, [tabindex]")];
  return { id: element.id, href: element.getAttribute("href"), place: all.indexOf(element) };
}

function focusAgain(region, was) {
  const all = [...region.querySelectorAll("a, button, input, summary, [tabindex]")];
  const same = all.find((e) => (was.id && e.id === was.id) || (was.href && e.getAttribute("href") === was.href));
  (same || all[was.place])?.focus({ preventScroll: true });
}

function update(regions) {
  for (const [name, html] of Object.entries(regions)) {
    const region = document.querySelector(`[data-live="${name}"]`);
    if (!region) continue;
    const focus = focusIn(region);
    const open = [...region.querySelectorAll("details")].map((d) => d.open);
    const left = [...region.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
    region.innerHTML = html;
    region.querySelectorAll("details").forEach((d, i) => { if (i in open) d.open = open[i]; });
    region.querySelectorAll(".scroll").forEach((e, i) => { if (left[i]) e.scrollLeft = left[i]; });
    if (focus) focusAgain(region, focus);
  }
  document.body.dataset.updates = Number(document.body.dataset.updates || 0) + 1;
  document.dispatchEvent(new Event("updated"));
}

function listen() {
  clearTimeout(again);
  source = new EventSource(address);
  source.onopen = () => say("live", "Live");
  source.onmessage = (event) => { say("live", "Live"); update(JSON.parse(event.data)); };
  source.addEventListener("fault", (event) => {
    const fault = JSON.parse(event.data);
    if (fault) say("stale", "Not updated: " + fault);
    else say("live", "Live");
  });
  source.addEventListener("version", (event) => { if (event.data !== version) location.reload(); });
  source.addEventListener("ended", () => location.reload());
  source.onerror = () => {
    say("waiting", "Reconnecting");
    // the browser tries again by itself, unless it was refused
    if (source.readyState === EventSource.CLOSED) refused();
  };
}

/** Find out why updates were refused, which an EventSource does not say; then try again. */
async function refused() {
  const asked = new AbortController();
  try {
    const answer = await fetch(address, { signal: asked.signal });
    if (answer.status === 401) { location.reload(); return; } // the session has ended: to the sign-in
    if (!answer.ok) say("stale", "Not updated: " + await answer.text());
  } catch { /* not reachable */ }
  asked.abort();
  if (source?.readyState === EventSource.CLOSED) again = setTimeout(listen, 5000);
}

function stop() {
  clearTimeout(again);
  source?.close();
  source = null;
}

if (address) {
  listen();
  // a page that nobody sees costs nothing
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else if (!source) listen();
  });
  addEventListener("pagehide", stop);
}

// forms that ask with what they send: their button is pressed once
document.querySelectorAll("form[data-once]").forEach((form) => form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  const said = form.querySelector("[role=status]");
  if (said) said.textContent = answer.ok ? form.dataset.once : "That did not work: " + answer.status;
}));
