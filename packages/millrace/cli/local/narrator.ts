import { callOf } from "../operate/arguments.ts";
import { oneLine, paint } from "../terminal.ts";
import { TENANT } from "../token/request.ts";
import { Storm } from "./storm.ts";
import { authOption } from "./token.ts";
import { eventIn, humanLine, type LogLine } from "./worker-log.ts";
import { errorOf } from "./wrangler.ts";

/**
 * The engine and the runtime log the same error in any order. An error that the runtime logs is delayed by this time, until the engine has
 * logged the error.
 */
const PATIENCE_MS = 1500;
/** Maximum number of recent engine errors in memory. */
const REMEMBERED = 500;

interface At {
  url: string;
  tokenFile: string;
  tenant?: string;
}

/**
 * Converts the lines of a Worker's log to sentences for the user. The runtime logs every error that leaves a step or a run as "Uncaught",
 * although the platform handles it. Such a line is not printed if the engine logs the same error with the instance and the step. It is also
 * not printed if an operator stopped the run.
 */
export function narrator(at: At, tell: (sentence: string) => void): (line: string) => void {
  const told: string[] = [];
  const held = new Set<{ text: string; timer: ReturnType<typeof setTimeout> }>();
  const storm = new Storm();
  /** For each dead letter whose log line is delayed, a function that cancels the output of this line. */
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
    // An automatic repair is logged shortly after the dead letter, and then the operator needs no command. So the line of the dead letter
    // is delayed.
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

/** The hint after a log line about an instance of another tenant, which the local token cannot read. */
function ofOther({ tenant }: At, of: unknown): string[] {
  if (tenant === undefined || typeof of !== "string" || of === tenant || !TENANT.test(of)) return [];
  return [`of tenant ${of}, which the token of ${tenant} does not see. To see it: npx millrace dev --tenant ${of}`];
}

/**
 * The group of a log line about a failure. Lines with the same cause are in one group and may be counted together. Undefined for a line
 * that is always printed.
 */
function kindOf({ log, level, outcome, workflow, step, code, cause, queue, message_type, error }: Told): string | undefined {
  if (log === "ended" && error !== undefined) return ["ended", cause ?? `${workflow} ${step} ${code}`].join(" ");
  if (log === "attempt" && level !== "info" && outcome !== "in_doubt") return ["attempt", workflow, step, code, outcome].join(" ");
  return log === "delivery" && outcome === "captured" ? ["captured", queue, message_type, code].join(" ") : undefined;
}

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
  // This text is not valid JSON until the user fills in the reason.
  const body = `{"verb":"retry","filter":{"cause":"${cause}"},"reason":…}`;
  return [
    said,
    `see them: ${callOf("instances list --cause", cause)}`,
    `retry them all: curl '${url}/v1/bulk-actions' ${auth} -H 'Content-Type: application/json' -d '${body}'`,
  ];
}

/** The message of the error with which the engine ends a run after an operator has stopped or restarted the instance. */
const STOPPED = "An operator has stopped the run: no further step starts.";
const UNCAUGHT = /^Uncaught (?:\(in promise\) )?(.*)$/;
const TELLS_ERRORS: ReadonlySet<string> = new Set(["attempt", "ended"]);

/**
 * True if both texts are the same error. The runtime adds class names before the message, sometimes adds text after the message, and logs
 * only the first line.
 */
function saysTheSame(uncaught: string, error: string): boolean {
  const [first = ""] = error.split("\n");
  const said = uncaught.replace(/^(?:\w*Error: )+/, "");
  const known = oneLine(first.replace(/^(?:\w*Error: )+/, ""));
  return known === "" ? said.trim() === "" : said.startsWith(known);
}

interface Told extends LogLine {
  instance_id?: string;
  level?: string;
  tenant_id?: unknown;
  workflow?: string;
  step?: string;
  queue?: string;
  message_type?: string;
  outcome?: string;
  /** The digest of the failure's cause. Failures with the same digest are one group. */
  cause?: string;
  effect?: string;
  /** Only for an unknown outcome: true if the effect certainly happened, but the database refused the rows of the effect. */
  happened?: boolean;
  dead_letter?: string;
  code?: string;
  error?: string;
  hint?: string;
  event_type?: string;
  open?: boolean;
  approval_id?: string;
}

/** True if all values are safe in a shell command. This is checked, because a tenant's text could imitate a log line of the engine. */
function isNamed({ instance_id, effect, dead_letter, event_type, approval_id, cause, error }: Told): boolean {
  const names = [instance_id, effect, dead_letter, event_type, approval_id, cause].filter((name) => name !== undefined);
  return names.every((name) => /^[\w.-]+$/.test(name)) && (error === undefined || typeof error === "string");
}

/**
 * The commands that an operator can run next. For a failed instance, the command retries the instance; if the output of an effect is
 * missing, a command that confirms the output comes first. For an effect with an unknown outcome and for a dead letter, the first command
 * shows the details. For a waiting instance, the command sends the event or the answer.
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
      `its input: ${callOf("instances effects", instance_id)}`,
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

/** A command of the CLI with a placeholder for the reason. The CLI refuses a reason that is still the placeholder. */
function because(...words: readonly string[]): string {
  return callOf(...words, "--reason …");
}

function confirmed(effect: string): string {
  return `${because("effects confirm", effect)} --output …`;
}

const OUTPUT_LOST: ReadonlySet<string | undefined> = new Set(["output_not_serializable", "output_too_large"]);
const CONFIRM = /\/v1\/effects\/([\w-]+)\/confirm/;
