// The editor of a handler: highlighting, the line of an error, two keys; to try or to save does not reload the page, and
// shows the steps while packages are got; and who leaves is asked before unsaved changes are lost.
import { banner, signedOut, takeToken } from "./forms.js";
import { send } from "./steps.js";

export async function helpEditor(form) {
  const area = form.querySelector("#body"), lang = form.querySelector("#lang");
  const press = (name) => form.querySelector(`button[value="${name}"]`)?.click();
  let edits = 0, isSaved = false, isSent = false;
  const isRestored = shown();
  addEventListener("submit", (event) => { isSent = event.target === form && !event.defaultPrevented; });
  addEventListener("beforeunload", (event) => {
    const isLost = !isSaved && !isSent && form.querySelector('button[value="save"]') && [...form.elements].some(isChanged);
    isSent = false; // the browser sends the form itself only while there is no editor, and this is asked at once
    if (isLost) event.preventDefault();
  });
  form.addEventListener("keydown", (event) => { // in the code, the editor has them
    const name = event.ctrlKey || event.metaKey ? { Enter: "try", s: "save" }[event.key] : "";
    if (!name || event.defaultPrevented) return;
    event.preventDefault();
    press(name);
  });
  const { edit } = await import("./codemirror.js");
  await isRestored;
  const editor = edit(area, lang.value, { "Mod-Enter": () => press("try"), "Mod-s": () => press("save") }, forget);
  lang.addEventListener("change", () => editor.speak(lang.value));
  form.addEventListener("input", forget);
  markError();
  keepPayload(form.elements.payload, form.querySelectorAll(".files a"));

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const started = edits, button = event.submitter, label = button.textContent, isTry = button.value === "try";
    const fields = new URLSearchParams(new FormData(form, button)), step = document.getElementById("step");
    button.disabled = true;
    button.textContent = isTry ? "Running…" : "Saving…";
    try {
      const tell = (text) => { step.textContent = text; };
      let answer = await send(form, fields, tell);
      if (answer.status === 403 && await renewToken()) {
        fields.set("token", form.elements.token.value);
        answer = await send(form, fields, tell);
      }
      const page = new DOMParser().parseFromString(answer.html || "", "text/html");
      if (started !== edits) {
        complain(changedMeanwhile(isTry, Boolean(answer.location)));
        if (answer.location) takeHidden(await freshPage(`${new URL(answer.location, location).pathname}/edit`));
      }
      else if (answer.location) { isSaved = true; location.assign(answer.location); }
      else if (page.getElementById("outcome")) show(page);
      else if (answer.status === 401) warn(signedOut());
      else complain(page.querySelector("main p")?.textContent || "Something went wrong.");
    } catch {
      complain(`The service cannot be reached. ${isTry ? "Try again." : "Save again when it is back: nothing is saved twice."}`);
    } finally {
      button.disabled = false;
      button.textContent = label;
      step.textContent = "";
    }
  });

  // Who has signed in again, perhaps in another tab, has a new session, and the page's token is of the old one.
  async function renewToken() {
    return takeToken(await freshPage(location.href));
  }

  async function freshPage(address) {
    return new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
  }

  // The folder and the version that the text is on now.
  function takeHidden(page) {
    for (const name of ["tree", "version", "version_of"]) {
      const field = page.querySelector(`form.handler input[name="${name}"]`);
      if (field && form.elements[name]) form.elements[name].value = field.value;
    }
  }

  function changedMeanwhile(isTry, isSaved) {
    if (isTry) return "You changed something while it ran. Try again.";
    return `${isSaved ? "Saved without" : "Not saved, nor is"} what you changed meanwhile. Save again.`;
  }

  function show(page) {
    for (const id of ["outcome", "trouble"]) document.getElementById(id).replaceWith(page.getElementById(id));
    takeHidden(page);
    markError();
    document.getElementById("problem")?.focus();
  }

  function complain(text) {
    warn(banner(text));
  }

  function warn(problem) {
    document.getElementById("trouble").replaceChildren(problem);
  }

  // A result belongs to the code and the payload that it came from.
  function forget() {
    edits += 1;
    document.getElementById("outcome").replaceChildren();
    document.getElementById("trouble").replaceChildren();
  }

  function markError() {
    const problem = document.querySelector("#problem[data-line], #tried[data-line]");
    if (problem) editor.mark(Number(problem.dataset.line), Number(problem.dataset.column || 0));
    else editor.mark(0, 0);
  }
}

// Who comes back finds what was typed: the browser brings it after the page has loaded, just before it says so.
function shown() {
  return new Promise((resolve) => addEventListener("pageshow", resolve, { once: true }));
}

// Whether a field would be lost that could be saved. A payload to try is not stored anyway.
function isChanged(field) {
  if (field.name === "payload" || ["hidden", "submit"].includes(field.type)) return false;
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.nodeName === "SELECT") return [...field.options].some((it) => it.selected !== it.defaultSelected);
  return field.value !== field.defaultValue;
}

// A payload that was typed stays when another file of the folder is opened.
function keepPayload(field, links) {
  const name = `payload for ${location.pathname}`, kept = sessionStorage.getItem(name);
  sessionStorage.removeItem(name);
  if (kept !== null) field.value = kept;
  const keep = () => { if (field.value !== field.defaultValue) sessionStorage.setItem(name, field.value); };
  for (const link of links) link.addEventListener("click", keep);
}
