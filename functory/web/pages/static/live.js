// Keeps a part of the page current: by server-sent events, and by asking now and then where these do not come through.
import { localTimes } from "./times.js";

const POLL_MS = 10000, RETRY_MS = 30000;

export function follow(region, pulse) {
  let source = null, polling = 0;
  const say = (state, text) => { if (pulse) { pulse.dataset.state = state; pulse.textContent = text; } };

  function listen() {
    source = new EventSource(region.dataset.live);
    source.addEventListener("open", () => { clearInterval(polling); polling = 0; say("live", "live"); });
    source.addEventListener("live", (event) => take(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return say("polling", "reconnecting");
      if (!polling) polling = setInterval(poll, POLL_MS);
      say("polling", "refreshed every 10 s");
      setTimeout(listen, RETRY_MS);
    });
  }

  async function poll() {
    const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
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
    if (region.dataset.reloadOn && state && state.dataset.state !== region.dataset.reloadOn) return location.reload();
    merge(region, template.content);
  }

  listen();
  addEventListener("pagehide", () => source.close());
}

// Make `old` look like `fresh` and touch nothing that is the same: focus, selection, scrolling and open lists stay.
function merge(old, fresh) {
  const before = [...old.childNodes], after = [...fresh.childNodes];
  after.forEach((node, n) => {
    const there = before[n];
    if (!there) old.append(node);
    else if (!alike(there, node)) there.replaceWith(node);
    else if (there.nodeType !== Node.ELEMENT_NODE) { if (there.data !== node.data) there.data = node.data; }
    else if (!there.isEqualNode(node)) { copyAttributes(there, node); if (!isBusy(there)) merge(there, node); }
  });
  before.slice(after.length).forEach((node) => node.remove());
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName &&
    (one.nodeType !== Node.ELEMENT_NODE || one.dataset.key === other.dataset.key);
}

function copyAttributes(to, from) {
  for (const { name } of [...to.attributes]) if (!from.hasAttribute(name)) to.removeAttribute(name);
  for (const { name, value } of from.attributes) if (to.getAttribute(name) !== value) to.setAttribute(name, value);
}

function isBusy(element) {
  return element.nodeName === "FORM" && element.contains(document.activeElement);
}
