// What the pages use of CodeMirror 6, in one file. `make editor` builds ../static/codemirror.js from it.
import { EditorState, StateEffect, StateField, Compartment } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { StreamLanguage, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { clike } from "@codemirror/legacy-modes/mode/clike";
import { javascript } from "@codemirror/legacy-modes/mode/javascript";
import { python } from "@codemirror/legacy-modes/mode/python";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { classHighlighter } from "@lezer/highlight";

// The stream parsers: a tenth of the size of the others, and enough for handlers. php has none, but is near to C.
const words = (text) => Object.fromEntries(text.split(" ").map((word) => [word, true]));
const php = clike({
  name: "php",
  keywords: words("abstract and array as break case catch class clone const continue declare default do echo else elseif empty"
    + " enddeclare endfor endforeach endif endswitch endwhile enum extends final finally fn for foreach function global goto if"
    + " implements include include_once instanceof insteadof interface isset list match namespace new or print private protected"
    + " public readonly require require_once return static switch throw trait try unset use var while xor yield"),
  blockKeywords: words("catch do else elseif for foreach if switch try while finally match"),
  defKeywords: words("class enum function interface namespace trait"),
  types: words("bool callable float int iterable mixed never object string void self parent"),
  atoms: words("true false null TRUE FALSE NULL"),
  multiLineStrings: true,
  hooks: {
    $: (stream) => (stream.eatWhile(/[\w\x80-\uffff]/), "variableName.definition"),
    "#": (stream) => (stream.peek() === "[" ? "meta" : (stream.skipToEnd(), "comment")),
    "'": (stream, state) => {
      state.tokenize = quoted;
      return quoted(stream, state);
    },
  },
});
// A text in single quotes, over lines.
function quoted(stream, state) {
  for (let escaped = false, char; (char = stream.next()) != null; escaped = !escaped && char === "\\") {
    if (char === "'" && !escaped) {
      state.tokenize = null;
      break;
    }
  }
  return "string";
}
const LANGUAGES = { python, node: javascript, php, sh: shell };

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
