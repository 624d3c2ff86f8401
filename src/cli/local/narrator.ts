import { oneLine, paint } from "../terminal.ts";
import { authOption } from "./token.ts";
import { eventIn, humanLine, type LogLine } from "./worker-log.ts";
import { errorOf } from "./wrangler.ts";

/** How long the runtime's word for an error waits for the engine's own: either may be written first. */
const PATIENCE_MS = 1500;
/** Errors that the engine has told of lately. */
const REMEMBERED = 500;

/**
 * Tells people what a Worker's log says. The runtime calls every error "Uncaught" that leaves a step's or a run's code, though that is how
 * the platform is told of it. Where the engine has said the same with its instance and step, nobody needs it twice; whatever else is
 * uncaught is told.
 */
export function narrator(at: { url: string; tokenFile: string }, tell: (sentence: string) => void): (line: string) => void {
  const told: string[] = [];
  const held = new Set<{ text: string; timer: ReturnType<typeof setTimeout> }>();
  const isTold = (text: string) => told.some((error) => saysTheSame(text, error));

  return (line) => {
    const uncaught = UNCAUGHT.exec(errorOf(line) ?? "")?.[1];
    if (uncaught !== undefined) {
      if (isTold(uncaught)) return;
      const one = {
        text: uncaught,
        timer: setTimeout(() => {
          held.delete(one);
          tell(`error: Uncaught ${uncaught}`);
        }, PATIENCE_MS),
      };
      held.add(one);
      return;
    }
    const event = eventIn(line) as Told | undefined;
    if (event && TELLS_ERRORS.has(event.log) && typeof event.error === "string") {
      told.push(event.error);
      if (told.length > REMEMBERED) told.shift();
      for (const one of held) {
        if (!saysTheSame(one.text, event.error)) continue;
        clearTimeout(one.timer);
        held.delete(one);
      }
    }
    const human = humanLine(line);
    if (human === undefined) return;
    const next = event && isNamed(event) ? nextCommands(at, event) : [];
    if (event?.log === "ended" && event.error === undefined) return tell(paint("dim", human));
    tell([human, ...next].join("\n          "));
  };
}

const UNCAUGHT = /^Uncaught (?:\(in promise\) )?(.*)$/;
const TELLS_ERRORS: ReadonlySet<string> = new Set(["attempt", "ended"]);

/** The runtime puts names of classes before a message, and sometimes more behind it; of one of several lines it has the first. */
function saysTheSame(uncaught: string, error: string): boolean {
  const [first = ""] = error.split("\n");
  const said = uncaught.replace(/^(?:\w*Error: )+/, "");
  const known = oneLine(first.replace(/^(?:\w*Error: )+/, ""));
  return known === "" ? said.trim() === "" : said.startsWith(known);
}

interface Told extends LogLine {
  /** None in a line about a message. */
  instance_id?: string;
  outcome?: string;
  /** The key of an effect in doubt. */
  effect?: string;
  /** The letter of a message that was captured. */
  dead_letter?: string;
  code?: string;
  error?: string;
  /** Of a wait for an event. */
  event_type?: string;
  open?: boolean;
  /** Of a wait for a person. */
  approval_id?: string;
}

/**
 * True where everything is a name that stands in a command: a line that only looks like the engine's must not bring a command of its own.
 */
function isNamed({ instance_id, effect, dead_letter, event_type, approval_id, error }: Told): boolean {
  const names = [instance_id, effect, dead_letter, event_type, approval_id].filter((name) => name !== undefined);
  return names.every((name) => /^[\w.-]+$/.test(name)) && (error === undefined || typeof error === "string");
}

/**
 * What to type next: an instance that failed is retried, where an output is missing after that was given; an effect in doubt and a dead
 * letter are looked at first, then settled; an instance that waits is told what it waits for, or answered.
 */
function nextCommands({ url, tokenFile }: { url: string; tokenFile: string }, told: Told): string[] {
  const auth = authOption(tokenFile);
  const post = (path: string, body: string, header = "") =>
    `curl '${url}/v1/${path}' ${auth} -H 'Content-Type: application/json'${header} -d '${body}'`;
  const looked = '"reason":"looked at it"';
  const { log, instance_id, outcome, effect, dead_letter, code, error, event_type, open, approval_id } = told;
  if (outcome === "in_doubt")
    return [
      `what was sent: curl '${url}/v1/instances/${instance_id}/effects' ${auth}`,
      `if it happened: ${post(`effects/${effect}/confirm`, `{"output":null,${looked}}`)}`,
      `if it did not: ${post(`effects/${effect}/reject`, `{${looked}}`)}`,
    ];
  if (dead_letter !== undefined)
    return [
      `look at it: curl '${url}/v1/dead-letters/${dead_letter}' ${auth}`,
      ...(code === "idempotency_key_reused" ? [] : [`send it back: ${post(`dead-letters/${dead_letter}/replay`, `{${looked}}`)}`]),
      `give it up: ${post(`dead-letters/${dead_letter}/skip`, `{${looked}}`)}`,
    ];
  if (log === "ended" && error !== undefined) {
    const retry = post(`instances/${instance_id}/retry`, `{${looked}}`);
    const [, key] = (OUTPUT_LOST.has(code) && CONFIRM.exec(error)) || [];
    if (key === undefined) return [`retry it: ${retry}`];
    return [`say what it answered: ${post(`effects/${key}/confirm`, `{"output":null,${looked}}`)}`, `then retry it: ${retry}`];
  }
  if (log !== "waiting") return [];
  if (approval_id !== undefined) return [`answer it: ${post(`approvals/${approval_id}/approve`, `{${looked}}`)}`];
  if (open !== true) return [];
  return [`state it: ${post("events", `{"type":"${event_type}","payload":{…}}`, " -H 'Idempotency-Key: …'")}`];
}

const OUTPUT_LOST: ReadonlySet<string | undefined> = new Set(["output_not_serializable", "output_too_large"]);
const CONFIRM = /\/v1\/effects\/([\w-]+)\/confirm/;
