// Sends a form and hears of its steps: server-sent events, of which the last has the page, or the address to go to.
export async function send(form, fields, tell) {
  const headers = { Accept: "text/event-stream, text/html" };
  const answer = await fetch(form.action, { method: "POST", body: fields, headers });
  if (!answer.headers.get("Content-Type")?.startsWith("text/event-stream")) // e.g. signed out
    return answer.redirected ? { location: answer.url } : { html: await answer.text(), status: answer.status };
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the answer ended early");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: ([^\n]*)$/.exec(event) || [];
      if (name === "progress") tell(JSON.parse(data));
      else if (name === "done") return JSON.parse(data).answer;
      else if (name === "error") return JSON.parse(data);
    }
  }
}
