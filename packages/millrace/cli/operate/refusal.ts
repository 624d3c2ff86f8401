import { ApiRefusal, type Problem } from "../api-client.ts";
import type { AskedEngine } from "../asked-engine.ts";
import { Refusal } from "../command.ts";
import { shown } from "../local/wrangler.ts";
import { OPERATIONS } from "../names.js";
import { oneLine } from "../terminal.ts";
import { callOf } from "./arguments.ts";

export function inWords(error: unknown, engine: AskedEngine): unknown {
  if (!(error instanceof ApiRefusal) || error.problem === undefined) return error;
  const { problem } = error;
  return new Refusal([...problemLines(problem), ...nextLines(problem, engine)].join("\n"), { cause: error });
}

export function problemLines({ title, detail, issues = [], did_you_mean: meant }: Problem): string[] {
  const [, hint = "", path] = BY_HTTP.exec(detail) ?? [];
  const { command } = OPERATIONS.find((one) => one.method === "GET" && one.path === path) ?? {};
  const said = command === undefined ? detail : detail.slice(0, detail.length - hint.length);
  return [
    oneLine(said.startsWith(title) ? said : `${title}: ${said}`),
    ...issueLines(issues, detail),
    ...(meant === undefined || detail.includes(meant) ? [] : [oneLine(`Did you mean ${meant}?`)]),
    ...(command === undefined ? [] : [`${command === "search" ? "Search" : "List them"}: ${callOf(command)}`]),
  ];
}

/** Matches the hint at the end of an error's detail that is meant for HTTP clients. */
const BY_HTTP = /( (?:List|Search)[\w ]*? with GET (\/v1\/[\w-]+)(?:\?\S*|;[^.]*)?\.?)$/;

export function issueLines(issues: NonNullable<Problem["issues"]>, detail: string): string[] {
  return issues.map(({ path, message }) => `${path} ${message}`).flatMap((said) => (detail.includes(said) ? [] : [`  ${oneLine(said)}`]));
}

/** The next command for an operator after a refused token or an unknown outcome. */
function nextLines({ code }: Problem, { tokenFrom, url }: AskedEngine): string[] {
  if (code === "unauthorized") {
    const from = /^(MILLRACE_TOKEN|--token)$/.test(tokenFrom) ? tokenFrom : shown(tokenFrom);
    return [`The token is from ${from}. Set MILLRACE_TOKEN to one of ${url}: npx millrace token makes them.`];
  }
  return code === "in_doubt" ? [`Check the upstream, then decide: ${callOf("effects list")}`] : [];
}
