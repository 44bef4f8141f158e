// Forms that a browser sends itself: each once, and the theme without leaving the page.

const sent = new Set();
const FORGET_MS = 5000;

export function helpForms() {
  addEventListener("submit", (event) => { // after the form's own listeners, which may have dealt with it
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post") return;
    if (form.matches('[action="/ui/theme"]')) { event.preventDefault(); return changeTheme(form, event.submitter); }
    if (sent.has(form)) return event.preventDefault(); // a slow service would do it twice
    sent.add(form);
    setTimeout(() => sent.delete(form), FORGET_MS); // the browser may have been told to stop
    // After all other listeners: who is asked whether to leave may stay, and is asked again the next time.
    addEventListener("beforeunload", (leave) => { if (leave.defaultPrevented) sent.delete(form); }, { once: true });
  });
  addEventListener("pageshow", () => sent.clear());
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
