import { isHttpAddress, sayUnmeant } from "../contract/settings.ts";
import type { AlertVars } from "./channels.ts";
import type { AlertNotice } from "./notice.ts";

/** The links to the console in an alert notice. */
export interface Place {
  /** The deployment's host, which identifies the deployment. */
  readonly host: string;
  /** The console page of the alert's subject. */
  readonly url: string;
  /** The console page of one of the alert's examples. */
  readonly ofExample: (id: string) => string;
}

/**
 * The console's address from `PUBLIC_URL`; undefined if the variable is not set. An invalid value is logged and does not delay alerts.
 */
export function consoleOf(env: Pick<AlertVars, "PUBLIC_URL">): { host: string; base: string } | undefined {
  const said = env.PUBLIC_URL?.trim();
  if (!said) return undefined;
  const url = URL.parse(said);
  if (url && isHttpAddress(said) && !url.username && !url.password) {
    // In Slack's markup, a `|` in a URL would end the link.
    const path = url.pathname.replaceAll("|", "%7C").replace(/\/+$/, "");
    return { host: url.host, base: `${url.origin}${path}/console` };
  }
  sayUnmeant(env, "PUBLIC_URL must begin with https:// and contain no user or password. Alerts have no link until then.");
  return undefined;
}

/** The console pages for a notice; undefined if the deployment's own address is not configured. */
export function placeOf(env: Pick<AlertVars, "PUBLIC_URL">, { rule, labels, examples }: AlertNotice): Place | undefined {
  const known = consoleOf(env);
  if (known === undefined) return undefined;
  const { host, base } = known;
  const ofExample = (id: string) => `${base}/${isOfLetters(rule) ? "dead-letters" : "instances"}/${encodeURIComponent(id.toWellFormed())}`;
  const [only, ...more] = examples;
  const url = only !== undefined && more.length === 0 ? ofExample(only) : `${base}/${listOf(rule, labels)}`;
  return { host, url, ofExample };
}

function isOfLetters(rule: string): boolean {
  return rule.startsWith("dead_letter") || rule === "dlq_depth";
}

/** The console page that lists the alert's subjects; if no page lists such subjects, the page of the alert itself. */
function listOf(rule: string, { queue, reason, workflow }: AlertNotice["labels"]): string {
  if (isOfLetters(rule)) return `dead-letters${queryOf({ queue, reason })}`;
  if (rule === "instances_errored" || rule === "errored_depth") return `instances${queryOf({ status: "errored", workflow })}`;
  if (rule === "instances_overdue") return `instances${queryOf({ overdue: "true", workflow })}`;
  return queue === undefined ? `to-do/alerts${queryOf({ rule })}` : "queues";
}

function queryOf(given: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams(Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
  return query.size === 0 ? "" : `?${query}`;
}
