// Times in the reader's zone; the title keeps UTC. Ages are counted on from the time itself.
const day = new Intl.DateTimeFormat(undefined, { day: "2-digit", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "2-digit", month: "short", year: "numeric" });
const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export function localTimes(root) {
  const now = Date.now(), today = new Date();
  for (const element of root.querySelectorAll("time[data-at]")) {
    const moment = new Date(element.dateTime);
    const date = moment.getFullYear() === today.getFullYear() ? day : dayOfYear;
    const text = (moment.toDateString() === today.toDateString() ? "" : date.format(moment) + " ") + clock.format(moment);
    if (element.textContent !== text) element.textContent = text;
  }
  for (const bar of root.querySelectorAll("rect[data-minute]")) {
    const title = bar.querySelector("title"), words = title.textContent.split(": ").slice(1).join(": ");
    const text = `${minute.format(new Date(Number(bar.dataset.minute)))}: ${words}`;
    if (title.textContent !== text) title.textContent = text;
  }
  for (const element of root.querySelectorAll("time[data-ago]")) {
    const text = ago((now - new Date(element.dateTime)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

function ago(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const text = words(size);
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

function words(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const place = units.findIndex(([size]) => seconds >= size);
  const [size, name] = units[place], [smaller, smallerName] = units[place + 1];
  const rest = Math.floor((seconds % size) / smaller);
  return `${Math.floor(seconds / size)} ${name}` + (rest ? ` ${rest} ${smallerName}` : "");
}
