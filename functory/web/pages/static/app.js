// What pages do better with a script: they stay current, show local times, and the editor helps. All of it is optional.
import { follow } from "./live.js";
import { localTimes } from "./times.js";
import { helpEditor } from "./editor.js";
import { helpForms } from "./forms.js";

// What an action did is told once: not again when the page is loaded again, and perhaps shows something else.
const address = new URL(location);
if (address.searchParams.has("note")) {
  address.searchParams.delete("note");
  history.replaceState(history.state, "", address);
}

// On a narrow screen the menu scrolls, and begins where the reader is.
const here = document.querySelector('.nav a[aria-current="page"]'), menu = here?.closest("ul");
if (menu) menu.scrollLeft = here.offsetLeft + here.offsetWidth - menu.offsetLeft - menu.clientWidth / 2;

localTimes(document);
document.getElementById("zone").textContent = "Times are in your zone. Hover for UTC.";
setInterval(() => localTimes(document), 5000);

const region = document.getElementById("live");
if (region && region.dataset.live) follow(region, document.getElementById("pulse"));

addEventListener("change", (event) => { // also of a form that came with a live part
  if (event.target.nodeName === "SELECT" && event.target.form?.matches("[data-auto]")) event.target.form.requestSubmit();
});

for (const form of document.querySelectorAll("form[data-confirm]"))
  form.addEventListener("submit", (event) => { if (!confirm(form.dataset.confirm)) event.preventDefault(); });

helpForms();

document.documentElement.classList.add("js");
addEventListener("click", async (event) => {
  const button = event.target.closest?.("button.copy");
  if (!button) return;
  button.textContent = await copy(button.parentElement.querySelector("code")) ? "Copied" : "Selected";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// Without TLS, and not on this machine, browsers give pages no clipboard: then the text is selected, and copied as by hand.
async function copy(code) {
  if (navigator.clipboard) return navigator.clipboard.writeText(code.textContent).then(() => true, () => select(code));
  return select(code);
}

function select(code) {
  getSelection().selectAllChildren(code);
  return document.execCommand("copy");
}

for (const form of document.querySelectorAll("form.handler")) helpEditor(form);
