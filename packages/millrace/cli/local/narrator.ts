import { callOf } from "../operate/usage.ts";
import { oneLine, paint } from "../terminal.ts";
import { TENANT } from "../token/request.ts";
import { Storm } from "./storm.ts";
import { authOption } from "./token.ts";
import { eventIn, humanLine, type LogLine } from "./worker-log.ts";
import { errorOf } from "./wrangler.ts";

/** How long the runtime's word for an error waits for the engine's own: either may be written first. */
const PATIENCE_MS = 1500;
/** Errors that the engine has told of lately. */
const REMEMBERED = 500;

/** The engine, and its token: the file, and the tenant once it is known. */
interface At {
  url: string;
  tokenFile: string;
  tenant?: string;
}

/**
 * Tells people what a Worker's log says. The runtime calls every error "Uncaught" that leaves a step's or a run's code, though that is how
 * the platform is told of it. Where the engine has said the same with its instance and step, nobody needs it twice, and the end of a
 * run that a person has stopped is no news; whatever else is uncaught is told.
 */
export function narrator(at: At, tell: (sentence: string) => void): (line: string) => void {
  const told: string[] = [];
  const held = new Set<{ text: string; timer: ReturnType<typeof setTimeout> }>();
  const storm = new Storm();
  /** Letters whose line waits for a repair, by what tells it when one has mended them. */
  const letters = new Map<string, () => void>();
  const isTold = (text: string) => told.some((error) => saysTheSame(text, error));

  return (line) => {
    const uncaught = UNCAUGHT.exec(errorOf(line) ?? "")?.[1];
    if (uncaught !== undefined) {
      if (isTold(uncaught) || saysTheSame(uncaught, STOPPED)) return;
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
    const tellLines = (lines: readonly string[]) => tell(lines.join("\n          "));
    const next = event && isNamed(event) && ofOther(at, event.tenant_id).length === 0 ? nextCommands(at, event) : [];
    const unseen = event?.log === "ended" ? ofOther(at, event.tenant_id) : [];
    if (event?.log === "ended" && event.error === undefined) return tell(paint("dim", [human, ...unseen].join("\n          ")));
    if (event === undefined) return tellLines([human]);
    const kind = kindOf(event);
    const whole = () => tellLines([human, ...unseen, ...next]);
    const one = () => (kind === undefined ? whole() : storm.take(kind, whole, (more) => tellLines(countedLines(at, event, more))));
    const { dead_letter } = event;
    if (dead_letter === undefined || !isNamed(event)) return one();
    if (event.log !== "delivery") {
      if (event.log === "repair" && event.outcome === "sent") letters.get(dead_letter)?.();
      return tellLines([human]);
    }
    // A repair that mends a letter says so a moment later: then nobody has to.
    const timer = setTimeout(() => {
      letters.delete(dead_letter);
      one();
    }, PATIENCE_MS);
    letters.set(dead_letter, () => {
      clearTimeout(timer);
      letters.delete(dead_letter);
      tellLines([human]);
    });
  };
}

/** The line below an instance that the engine's token does not see. */
function ofOther({ tenant }: At, of: unknown): string[] {
  if (tenant === undefined || typeof of !== "string" || of === tenant || !TENANT.test(of)) return [];
  return [`of tenant ${of}, which the token of ${tenant} does not see. To see it: npx millrace dev --tenant ${of}`];
}

/** What a line has in common with others that need not all be read: failures of one cause. Undefined for what is told in any case. */
function kindOf({ log, level, outcome, workflow, step, code, cause, queue, message_type, error }: Told): string | undefined {
  if (log === "ended" && error !== undefined) return ["ended", cause ?? `${workflow} ${step} ${code}`].join(" ");
  if (log === "attempt" && level !== "info" && outcome !== "in_doubt") return ["attempt", workflow, step, code, outcome].join(" ");
  return log === "delivery" && outcome === "captured" ? ["captured", queue, message_type, code].join(" ") : undefined;
}

/** How many more there were of a kind, and how to see and settle them all at once. */
function countedLines({ url, tokenFile }: { url: string; tokenFile: string }, told: Told, more: number): string[] {
  const { log, workflow, step, queue, message_type, code, cause, error = "" } = told;
  const auth = authOption(tokenFile);
  if (log === "attempt") return [oneLine(`${workflow}: ${step}, ${more} more attempts failed with the same error, the last of ${error}`)];
  if (log === "delivery")
    return [
      oneLine(`${queue}: ${more} more of ${message_type} captured, ${code}`),
      `list by cause: curl '${url}/v1/dead-letters/causes' ${auth}`,
    ];
  const said = oneLine(`${workflow}: ${more} more errored at ${step || "no step"} of the same cause, the last of ${error}`);
  if (cause === undefined || !isNamed(told)) return [said];
  // No JSON before a reason is filled in.
  const body = `{"verb":"retry","filter":{"cause":"${cause}"},"reason":…}`;
  return [
    said,
    `see them: ${callOf("instances list --cause", cause)}`,
    `retry them all: curl '${url}/v1/bulk-actions' ${auth} -H 'Content-Type: application/json' -d '${body}'`,
  ];
}

/** What the engine ends a run with that a person has stopped, or restarted. */
const STOPPED = "An operator has stopped the run: no further step starts.";
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
  level?: string;
  tenant_id?: unknown;
  workflow?: string;
  step?: string;
  queue?: string;
  message_type?: string;
  outcome?: string;
  /** What the failure of a run has in common with others. */
  cause?: string;
  /** The key of an effect in doubt. */
  effect?: string;
  /** Of a doubt: it is known to have happened, and its rows were refused. */
  happened?: boolean;
  /** The letter of a message that was captured. */
  dead_letter?: string;
  code?: string;
  error?: string;
  /** What may be behind a failure. */
  hint?: string;
  /** Of a wait for an event. */
  event_type?: string;
  open?: boolean;
  /** Of a wait for a person. */
  approval_id?: string;
}

/**
 * True where everything is a name that stands in a command: a line that only looks like the engine's must not bring a command of its own.
 */
function isNamed({ instance_id, effect, dead_letter, event_type, approval_id, cause, error }: Told): boolean {
  const names = [instance_id, effect, dead_letter, event_type, approval_id, cause].filter((name) => name !== undefined);
  return names.every((name) => /^[\w.-]+$/.test(name)) && (error === undefined || typeof error === "string");
}

/**
 * What to type next: an instance that failed is retried, where an output is missing after that was given; an effect in doubt and a dead
 * letter are looked at first, then settled; an instance that waits is told what it waits for, or answered.
 */
function nextCommands({ url, tokenFile }: { url: string; tokenFile: string }, told: Told): string[] {
  const { log, instance_id = "", outcome, effect = "", dead_letter, code, error, event_type, open, approval_id, hint } = told;
  if (outcome === "in_doubt" && told.happened === true)
    return [
      `its output, and the possible decisions: ${callOf("instances show", instance_id)}`,
      `after deploying code with valid rows: ${confirmed(effect)}`,
    ];
  if (outcome === "in_doubt")
    return [
      `its input: ${callOf("effects list --instance", instance_id)}`,
      `if it happened, with its output (null if none): ${confirmed(effect)}`,
      `if it did not happen, to send it now: ${because("effects reject", effect)}`,
    ];
  if (dead_letter !== undefined && log === "delivery")
    return [
      `show it: ${callOf("dead-letters show", dead_letter)}`,
      ...(code === "idempotency_key_reused" ? [] : [`replay it: ${because("dead-letters replay", dead_letter)}`]),
      `skip it: ${because("dead-letters skip", dead_letter)}`,
    ];
  if (log === "ended" && error !== undefined) {
    const retry = because("instances retry", instance_id);
    const [, given] = (typeof hint === "string" && CONFIRM.exec(hint)) || [];
    if (given !== undefined) return [`retry it: ${retry}`, `if the confirmed output is wrong, first: ${confirmed(given)}`];
    const [, key] = (OUTPUT_LOST.has(code) && CONFIRM.exec(error)) || [];
    if (key === undefined) return [`retry it: ${retry}`];
    return [`give its output (null if none): ${confirmed(key)}`, `then retry it: ${retry}`];
  }
  if (log !== "waiting") return [];
  if (approval_id !== undefined) return [`answer it: ${because("approvals approve", approval_id)}`];
  if (open !== true) return [];
  const body = `{"type":"${event_type}","payload":{…}}`;
  return [
    `send it: curl '${url}/v1/events' ${authOption(tokenFile)} -H 'Content-Type: application/json' -H 'Idempotency-Key: …' -d '${body}'`,
  ];
}

/** An act, with the place for its reason: what nobody has filled in is refused. */
function because(...words: readonly string[]): string {
  return callOf(...words, "--reason …");
}

function confirmed(effect: string): string {
  return `${because("effects confirm", effect)} --output …`;
}

const OUTPUT_LOST: ReadonlySet<string | undefined> = new Set(["output_not_serializable", "output_too_large"]);
const CONFIRM = /\/v1\/effects\/([\w-]+)\/confirm/;
