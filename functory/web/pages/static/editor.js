// The editor of a handler: line numbers, indentation that follows, and two keys. Tab moves on, as everywhere.
export function helpEditor(editor) {
  const area = editor.querySelector("textarea");
  const gutter = document.createElement("div");
  gutter.className = "gutter"; gutter.setAttribute("aria-hidden", "true");
  editor.prepend(gutter);

  const number = () => {
    const lines = area.value.split("\n").length;
    gutter.textContent = Array.from({ length: lines }, (_, n) => n + 1).join("\n");
    gutter.scrollTop = area.scrollTop;
  };
  area.addEventListener("input", number);
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  number();

  area.addEventListener("keydown", (event) => {
    const command = event.ctrlKey || event.metaKey;
    if (command && event.key === "Enter") press(area.form, "try", event);
    else if (command && event.key === "s") press(area.form, "save", event);
    else if (event.key === "Enter" && !command && !event.shiftKey && !event.isComposing) {
      const start = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
      const line = area.value.slice(start, area.selectionStart);
      const indent = line.match(/^[ \t]*/)[0] + (/[:{([]\s*$/.test(line) ? "    " : "");
      if (!indent) return;
      event.preventDefault();
      document.execCommand("insertText", false, "\n" + indent);
    }
  });
}

function press(form, name, event) {
  event.preventDefault();
  form.querySelector(`button[value="${name}"]`)?.click();
}
