import { ApiRefusal, type Problem } from "../api-client.ts";
import type { AskedEngine } from "../asked-engine.ts";
import { Refusal } from "../command.ts";
import { shown } from "../local/wrangler.ts";
import { oneLine } from "../terminal.ts";
import { callOf } from "./usage.ts";

const NEXT: Readonly<Record<string, string>> = {
  instance_not_found: `List them: ${callOf("instances list")}`,
  effect_not_found: `List effects with an unknown outcome: ${callOf("effects list")}`,
  dead_letter_not_found: `List them: ${callOf("dead-letters list")}`,
  approval_not_found: `List them: ${callOf("approvals list")}`,
  in_doubt: `Check the upstream, then decide: ${callOf("effects list")}`,
};

export function inWords(error: unknown, engine: AskedEngine): unknown {
  if (!(error instanceof ApiRefusal) || error.problem === undefined) return error;
  const { problem } = error;
  return new Refusal([...problemLines(problem), ...nextLines(problem, engine)].join("\n"), { cause: error });
}

export function problemLines({ title, detail, issues = [], did_you_mean: meant, code }: Problem): string[] {
  const said = NEXT[code] === undefined ? detail : detail.replace(BY_HTTP, "");
  return [
    oneLine(said.startsWith(title) ? said : `${title}: ${said}`),
    ...issueLines(issues, detail),
    ...(meant === undefined || detail.includes(meant) ? [] : [oneLine(`Did you mean ${meant}?`)]),
  ];
}

export function issueLines(issues: NonNullable<Problem["issues"]>, detail: string): string[] {
  return issues.map(({ path, message }) => `${path} ${message}`).flatMap((said) => (detail.includes(said) ? [] : [`  ${oneLine(said)}`]));
}

/** The hint for programs at the end of a detail. */
const BY_HTTP = / List [\w ]+ with GET \S+$/;

function nextLines({ code }: Problem, { tokenFrom, url }: AskedEngine): string[] {
  if (code === "unauthorized") {
    const from = tokenFrom === "MILLRACE_TOKEN" ? tokenFrom : shown(tokenFrom);
    return [`The token is from ${from}. Set MILLRACE_TOKEN to one of ${url}: npx millrace token makes them.`];
  }
  const next = NEXT[code];
  return next === undefined ? [] : [next];
}
