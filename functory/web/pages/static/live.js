// Keeps a part of the page current: by server-sent events, and by asking now and then where these do not come through.
// When something changes that the page shows outside this part (`data-state`), the page is loaded again.
import { localTimes } from "./times.js";

const POLL_MS = 10000, RETRY_MS = 30000, RENEW_MS = 3000, TYPING_MS = 1000;

export function follow(region, pulse) {
  let source = null, polling = 0, retrial = 0, renewal = 0, isLeaving = false, isOver = false;
  const say = (state, text) => { if (pulse) { pulse.dataset.state = state; pulse.textContent = text; } };

  function listen() {
    source = new EventSource(region.dataset.live);
    source.addEventListener("open", () => { clearInterval(polling); polling = 0; say("live", "live"); });
    source.addEventListener("live", (event) => take(JSON.parse(event.data)));
    source.addEventListener("gone", end);
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return say("polling", "reconnecting");
      say("polling", "refreshed every 10 s");
      if (!polling) { polling = setInterval(poll, POLL_MS); poll(); }
      retrial = setTimeout(listen, RETRY_MS);
    });
  }

  function rest() {
    source?.close();
    clearInterval(polling);
    clearTimeout(retrial);
    polling = 0;
  }

  // A browser has six connections to a service, over all its tabs: a tab that nobody sees must not hold one.
  function look() {
    rest();
    if (!document.hidden && !isOver) listen();
  }

  // What the page shows was deleted: what is known of it stays in sight.
  function end() {
    isOver = true;
    rest();
    say("off", "no longer there");
  }

  async function poll() {
    const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
    if (answer?.type === "opaqueredirect") { say("off", "signed out"); return renew(); }
    if (answer?.status === 404) return end();
    if (!answer || !answer.ok) return say("off", "not reachable");
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (fresh) take(fresh.innerHTML);
  }

  function take(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    localTimes(template.content);
    const state = template.content.querySelector("[data-state]");
    clearTimeout(renewal);
    if (state && state.dataset.state !== region.dataset.reloadOn) renew();
    merge(region, template.content);
  }

  // Not while somebody types or leaves, nor again and again if two daemons do not agree for a moment.
  function renew() {
    clearTimeout(renewal);
    const rest_ms = wasReloaded() ? RENEW_MS - performance.now() : 0;
    if (rest_ms <= 0 && !isTyping() && !isLeaving) location.reload();
    else renewal = setTimeout(renew, Math.max(rest_ms, TYPING_MS));
  }

  look();
  document.addEventListener("visibilitychange", look);
  addEventListener("beforeunload", () => { isLeaving = true; });
  addEventListener("pagehide", rest);
}

function wasReloaded() {
  return performance.getEntriesByType("navigation")[0]?.type === "reload";
}

function isTyping() {
  const fields = document.querySelectorAll('input:not([type="hidden"]), textarea, select');
  return [...fields].some((it) => it === document.activeElement || (it.nodeName !== "SELECT" && it.value !== it.defaultValue));
}

// Make `old` look like `fresh` and touch nothing that is the same: focus, selection, scrolling and open lists stay.
function merge(old, fresh) {
  const focused = document.activeElement, followed = [...old.querySelectorAll("pre.text")].filter(isAtItsEnd);
  mergeNodes(old, fresh);
  for (const text of followed) text.scrollTop = text.scrollHeight;
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // it was moved
}

// Elements with a key are the same wherever they are, others are by their place between them.
function mergeNodes(old, fresh) {
  const keys = new Set([...fresh.children].map(keyOf)), known = new Map();
  for (const node of [...old.children]) {
    const key = keyOf(node);
    if (key && keys.has(key)) known.set(key, node);
    else if (key) node.remove();
  }
  let place = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    const there = keyOf(node) ? known.get(keyOf(node)) : place && !keyOf(place) && alike(place, node) ? place : null;
    known.delete(keyOf(node));
    while (there && place !== there && place && !keyOf(place)) place = drop(place);
    if (!there) old.insertBefore(node, place);
    else if (there !== place) old.insertBefore(there, place);
    else place = there.nextSibling;
    if (there) update(there, node);
  }
  while (place) place = drop(place);
}

function drop(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function update(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== fresh.data) changeText(old, fresh.data); }
  else if (!old.isEqualNode(fresh)) { copyAttributes(old, fresh); if (!isBusy(old)) mergeNodes(old, fresh); }
}

// A log that grows at its end, and perhaps loses lines at its beginning: what is selected in it stays selected.
function changeText(node, text) {
  const old = node.data, first = text.indexOf("\n") + 1; // it tells how many lines are left out
  const lost = text.startsWith(old) ? 0 : old.indexOf(text.slice(first, first + 500)), start = lost ? first : 0;
  if (lost < 0 || !text.startsWith(old.slice(lost), start)) { node.data = text; return; }
  node.appendData(text.slice(start + old.length - lost));
  node.replaceData(0, lost, text.slice(0, start));
}

function isAtItsEnd(element) {
  return element.scrollHeight - element.scrollTop - element.clientHeight < 4;
}

function keyOf(node) {
  return node.dataset?.key ? `${node.nodeName} ${node.dataset.key}` : "";
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}

function copyAttributes(to, from) {
  for (const { name } of [...to.attributes]) if (!from.hasAttribute(name)) to.removeAttribute(name);
  for (const { name, value } of from.attributes) if (to.getAttribute(name) !== value) to.setAttribute(name, value);
}

function isBusy(element) {
  return element.nodeName === "FORM" && element.contains(document.activeElement);
}
