// What the pages use of CodeMirror 6, in one file. `make editor` builds ../static/codemirror.js from it.
import { EditorState, StateEffect, StateField, Compartment } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { StreamLanguage, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { javascript } from "@codemirror/legacy-modes/mode/javascript";
import { python } from "@codemirror/legacy-modes/mode/python";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { classHighlighter } from "@lezer/highlight";

// The stream parsers: a tenth of the size of the others, and enough for handlers. php has none, and is shown plain.
const LANGUAGES = { python, node: javascript, sh: shell };

const setErrorLine = StateEffect.define();
const errorLine = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(setErrorLine)) continue;
      const number = effect.value;
      if (!number || number > transaction.state.doc.lines) return Decoration.none;
      const from = transaction.state.doc.line(number).from;
      return Decoration.set([Decoration.line({ class: "cm-error-line", attributes: { title: "the error is here" } }).range(from)]);
    }
    return transaction.docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

// Typing over a selection is done here: the browser would copy styles into the text, which the policy of the pages refuses.
const replaceSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || event.data === null || view.state.selection.main.empty || view.state.readOnly) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

// An editor in place of `area`, which keeps its text for the form. commands: { "Mod-Enter": () => ..., ... }
export function edit(area, language, commands, onChange) {
  const tongue = new Compartment();
  const of = (name) => (LANGUAGES[name] ? StreamLanguage.define(LANGUAGES[name]) : []);
  const own = Object.entries(commands).map(([key, run]) => ({ key, run: () => { run(); return true; }, preventDefault: true }));
  const view = new EditorView({
    doc: area.value,
    extensions: [
      keymap.of([...own, ...defaultKeymap, ...historyKeymap, indentWithTab]),
      lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(),
      indentUnit.of("    "), EditorState.tabSize.of(4), EditorState.lineSeparator.of("\n"),
      EditorState.readOnly.of(area.readOnly),
      EditorView.contentAttributes.of({ "aria-label": "Code", id: "code", spellcheck: "false", autocapitalize: "off" }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = update.state.doc.toString();
        onChange();
      }),
      syntaxHighlighting(classHighlighter), replaceSelection, errorLine, tongue.of(of(language)),
    ],
  });
  area.hidden = true;
  area.after(view.dom);
  return {
    view,
    speak: (name) => view.dispatch({ effects: tongue.reconfigure(of(name)) }),
    mark(line, column) {
      view.dispatch({ effects: setErrorLine.of(line) });
      if (!line || line > view.state.doc.lines) return;
      const at = view.state.doc.line(line), place = Math.min(at.from + Math.max(column - 1, 0), at.to);
      view.dispatch({ selection: { anchor: place }, effects: EditorView.scrollIntoView(place, { y: "center" }) });
    },
  };
}
