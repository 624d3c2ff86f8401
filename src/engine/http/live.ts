import { html } from "hono/html";

/** What a browser shows below `LIVE`: what runs, and what waits for a person, with the token that its user gives it. */
export const LIVE_SCRIPT = `
const LOOK_EVERY_MS = 3000;
const RECENT = 50;
const SHOWN = 12;
const at = (id) => document.getElementById(id);
/** In this page's memory alone, and gone with it. */
let token = location.hash.startsWith("#token=") ? decodeURIComponent(location.hash.slice(7)) : "";
if (token) history.replaceState(null, "", location.pathname);

class Refused extends Error {}

async function items(path) {
  const answer = await fetch(path, { headers: { authorization: "Bearer " + token } });
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body.items;
  if (answer.status === 401 || answer.status === 403) throw new Refused(body.detail);
  throw new Error(body.detail ?? "The answer was " + answer.status + ".");
}

/** Whatever is shown is text, and never read as HTML. */
function line(state, text, detail) {
  const item = document.createElement("li");
  const name = document.createElement("strong");
  name.textContent = state;
  item.append(name, " " + text);
  if (detail) {
    const small = document.createElement("small");
    small.textContent = detail;
    item.append(document.createElement("br"), small);
  }
  return item;
}

function show(id, lines, none) {
  at(id).replaceChildren(...(lines.length > 0 ? lines : [line("", none)]));
}

function say(text) {
  if (at("said").textContent !== text) at("said").textContent = text;
}

const ago = (time) => {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  return seconds < 120 ? seconds + " s ago" : seconds < 7200 ? Math.round(seconds / 60) + " min ago" : new Date(time).toLocaleString();
};
const why = ({ error }) => (error ? (error.step ? "“" + error.step + "”: " : "") + error.message : "");

async function look() {
  const [recent, errored, doubts, questions, letters] = await Promise.all([
    items("/v1/instances?limit=" + RECENT),
    items("/v1/instances?status=errored&limit=" + SHOWN),
    items("/v1/instances?status=in_doubt&limit=" + SHOWN),
    items("/v1/approvals?state=pending&limit=" + SHOWN),
    items("/v1/dead-letters?state=open&limit=" + SHOWN),
  ]);
  show("people", [
    ...questions.map((one) => line("question", one.question, "POST /v1/approvals/" + one.id + "/approve or /reject")),
    ...doubts.map((one) => line("in doubt", one.workflow + " · " + one.subject, why(one) + " · GET /v1/instances/" + one.id + "/effects")),
    ...errored.map((one) => line("errored", one.workflow + " · " + one.subject, why(one) + " · POST /v1/instances/" + one.id + "/retry")),
    ...letters.map((one) => line("dead letter", one.queue + " · " + (one.message_type ?? ""), (one.error ?? one.reason) + " · POST /v1/dead-letters/" + one.id + "/replay")),
  ], "Nothing waits for you.");
  const counts = Object.entries(Object.groupBy(recent, (one) => one.status)).map(([status, found]) => found.length + " " + status);
  at("counts").textContent = counts.length > 0 ? "Of the latest " + recent.length + ": " + counts.join(", ") + "." : "";
  show("recent", recent.slice(0, SHOWN).map((one) =>
    line(one.status, one.workflow + " · " + one.subject + " · " + ago(one.updated_at), why(one))), "Nothing was asked for yet.");
}

async function follow() {
  for (;;) {
    if (token && !document.hidden) {
      try {
        await look();
        at("ask").hidden = true;
        at("now").hidden = false;
        say("");
      } catch (error) {
        say(error.message);
        if (error instanceof Refused) {
          token = "";
          at("now").hidden = true;
          at("ask").hidden = false;
        }
      }
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

let following;
function begin() {
  following ??= follow();
}
at("ask").hidden = token !== "";
at("live").hidden = false;
at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  say("Looking …");
  begin();
});
if (token) begin();
`;

/** Shown only where scripts run. */
export const LIVE = html`<section id="live" hidden aria-labelledby="live-heading">
<h2 id="live-heading">What happens now</h2>
<form id="ask">
<p><label for="token">Your token</label> <input id="token" type="password" autocomplete="off" required> <button>Look</button></p>
<p>It needs the scope <code>read</code>, stays in this page, and is forgotten with it.</p>
</form>
<p id="said" role="status"></p>
<div id="now" hidden>
<h3>Waits for a person</h3>
<ul id="people"></ul>
<h3>Latest instances</h3>
<p id="counts"></p>
<ul id="recent"></ul>
</div>
</section>`;
