import { paint } from "../terminal.ts";
import { authOption } from "./token.ts";
import { humanLine, plainLine } from "./worker-log.ts";

/** How long the runtime's word for an error waits for the engine's own: either may be written first. */
const PATIENCE_MS = 1500;
/** Errors that the engine has told of lately. */
const REMEMBERED = 500;

/**
 * Tells people what a Worker's log says. The runtime calls every error "Uncaught" that leaves a step's or a run's code, though that is how the platform
 * is told of it. Where the engine has said the same with its instance and step, nobody needs it twice; whatever else is uncaught is told.
 */
export function narrator(at: { url: string; tokenFile: string }, tell: (sentence: string) => void): (line: string) => void {
  const told: string[] = [];
  const held = new Set<{ text: string; timer: ReturnType<typeof setTimeout> }>();
  const isTold = (text: string) => told.some((error) => saysTheSame(text, error));

  return (line) => {
    const uncaught = UNCAUGHT.exec(plainLine(line))?.[1];
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
    const event = eventIn(line);
    if (event && TELLS_ERRORS.has(event.log) && event.error !== undefined) {
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
    if (event?.log !== "ended" && event?.outcome !== "in_doubt") return tell(human);
    if (event.log === "ended" && event.error === undefined) return tell(paint("dim", human));
    tell(`${human}\n${nextCommand(at, event)}`);
  };
}

const UNCAUGHT = /\[ERROR\]\s*Uncaught (?:\(in promise\) )?(.*)$/;
const TELLS_ERRORS: ReadonlySet<string> = new Set(["attempt", "ended"]);

/** The runtime puts names of classes before a message, and sometimes more behind it; of one of several lines it has the first. */
function saysTheSame(uncaught: string, error: string): boolean {
  const [first = ""] = error.split("\n");
  const said = uncaught.replace(/^(?:\w*Error: )+/, "");
  return first.trim() === "" ? said.trim() === "" : said.startsWith(first.replace(/^(?:\w*Error: )+/, "").trim());
}

interface Told {
  log: string;
  instance_id: string;
  outcome?: string;
  error?: string;
}

function eventIn(line: string): Told | undefined {
  const plain = plainLine(line);
  if (!plain.startsWith('{"log":')) return undefined;
  try {
    return JSON.parse(plain);
  } catch {
    return undefined;
  }
}

/** What to type next: an instance that failed is retried, and one in doubt is looked at first. */
function nextCommand({ url, tokenFile }: { url: string; tokenFile: string }, { log, instance_id }: Told): string {
  const auth = authOption(tokenFile);
  const command =
    log === "ended"
      ? `curl '${url}/v1/instances/${instance_id}/retry' ${auth} -H 'Content-Type: application/json' -d '{"reason":"looked at it"}'`
      : `curl '${url}/v1/instances/${instance_id}/effects' ${auth}`;
  return `          ${log === "ended" ? "retry it" : "what was sent"}: ${command}`;
}
