// Forms that a browser sends itself: each once, the theme without leaving the page, and what somebody typed
// (`data-keep`) only while they are signed in.

const sent = new Set();
const FORGET_MS = 5000;

export function helpForms() {
  addEventListener("submit", (event) => { // after the form's own listeners, which may have dealt with it
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (form.matches('[action="/ui/theme"]')) { event.preventDefault(); return changeTheme(form, event.submitter); }
    if (sent.has(form)) return event.preventDefault(); // a slow service would do it twice
    sent.add(form);
    const isKept = form.matches("[data-keep]");
    if (!isKept) forgetLater(form);
    // After all other listeners: who is asked whether to leave may stay, and is asked again the next time.
    addEventListener("beforeunload", (leave) => { if (leave.defaultPrevented) sent.delete(form); }, { once: true });
    if (isKept) { event.preventDefault(); sendSignedIn(form, event.submitter); }
  });
  addEventListener("pageshow", () => sent.clear());
}

// The browser may have been told to stop.
function forgetLater(form) {
  setTimeout(() => sent.delete(form), FORGET_MS);
}

// Who was signed out meanwhile stays on the page. Who has signed in again has a new session, and the form gets its token.
async function sendSignedIn(form, button) {
  const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
  const isSignedOut = answer?.type === "opaqueredirect";
  if (answer && !isSignedOut) { takeToken(new DOMParser().parseFromString(await answer.text(), "text/html")); forgetLater(form); return submitBy(form, button); }
  sent.delete(form);
  document.getElementById("problem")?.remove();
  form.before(isSignedOut ? signedOut() : banner("The service cannot be reached. Nothing was sent."));
  document.getElementById("problem").scrollIntoView({ block: "nearest" });
}

// As the button does, which may have a name.
function submitBy(form, button) {
  const field = Object.assign(document.createElement("input"), { type: "hidden", name: button?.name ?? "", value: button?.value ?? "" });
  form.append(field);
  form.submit();
  field.remove();
}

// Whether the other page is of another session than this one was.
export function takeToken(page) {
  const token = page.querySelector('input[name="token"]')?.value, fields = document.querySelectorAll('input[name="token"]');
  if (!token || token === fields[0].value) return false;
  for (const field of fields) field.value = token;
  return true;
}

export function banner(...content) {
  const made = document.createElement("div"), text = document.createElement("p");
  text.append(...content);
  Object.assign(made, { id: "problem", className: "banner bad", role: "alert" });
  made.append(text);
  return made;
}

export function signedOut() {
  const link = document.createElement("a");
  Object.assign(link, { href: "/ui/signin", target: "_blank", rel: "noopener", textContent: "Sign in in another tab" });
  return banner("You were signed out. ", link, ", then press the button again.");
}

// The answer is this page with the other theme: what is typed here stays.
async function changeTheme(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  const answer = await fetch(form.action, { method: "POST", body: fields }).catch(() => null);
  const page = new DOMParser().parseFromString(answer ? await answer.text() : "", "text/html");
  const next = page.querySelector('form[action="/ui/theme"] button');
  if (!next) return;
  document.documentElement.dataset.theme = page.documentElement.dataset.theme;
  button.value = next.value;
  button.title = next.title;
  button.replaceChildren(...next.childNodes);
}
