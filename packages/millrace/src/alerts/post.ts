import { assertTaken, type BodyRefusal, guardedUrl, objectIn, signatureOf } from "../callbacks/receiver.ts";
import type { AddressGuard } from "../contract/address-guard.ts";
import { MillraceError } from "../contract/errors.ts";
import { isHttpAddress, sayUnmeant } from "../contract/settings.ts";
import { beginning, characterCount, shortened } from "../contract/text.ts";
import { defineStep, type StepDefinition } from "../guard/step.ts";
import { defineWorkflow, type WorkflowDefinition } from "../workflow/workflow.ts";
import { type AlertVars, type Channel, type ChannelName, channelOf } from "./channels.ts";
import { AlertChanged, type AlertNotice, SEND_ALERT } from "./notice.ts";

interface Posting {
  /** The id of an alert notice. The id is the same in every attempt, restart and retry. */
  readonly id: string;
  readonly channel: ChannelName;
  readonly notice: AlertNotice;
}

/** The result of a post. `off` means that the channel is no longer configured. */
interface Posted {
  readonly state: "sent" | "off";
  readonly status: number | null;
}

/**
 * Retries for about 20 minutes: the delay is 2 seconds before the first retry, and 2 seconds longer before each further retry. After the
 * last retry an operator can retry the instance.
 */
const RETRIES = { limit: 35, delay: "2 seconds", backoff: "linear" } as const;

/**
 * Posts a notice to a channel. Receivers of signed webhooks deduplicate by `webhook-id`. Slack and Telegram read no idempotency key, so a
 * chat shows a message twice if the response to the first post was lost. Errors contain no URL, because the URLs of Slack and Telegram are
 * secrets.
 */
export function postAlert(guard: AddressGuard | undefined): StepDefinition<Posting, Posted> {
  return defineStep<Posting, Posted>({
    effect: "keyed",
    key: ({ id }) => id,
    retries: RETRIES,
    run: async ({ input: { channel: name, notice }, key, fetch, env, signal }) => {
      const vars = env as unknown as AlertVars;
      const channel = channelOf(name, vars);
      if (channel === undefined) return { state: "off", status: null };
      const response = await fetch(await targetOf(env, channel, guard), {
        method: "POST",
        ...requestOf(channel, notice, placeOf(vars, notice), key),
        redirect: "manual",
        signal,
      }).catch(() => {
        throw new MillraceError("unavailable", `${name} cannot be reached, or did not respond in time.`);
      });
      await assertTaken(name, response, {
        isFinal: (status) => (name === "webhook" ? status === 410 : !mayPass(status)),
        next: NEXT,
        refusedIn: CHATS[name],
      });
      return { state: "sent", status: response.status };
    },
  });
}

async function targetOf(env: Cloudflare.Env, channel: Channel, guard: AddressGuard | undefined): Promise<URL> {
  if (channel.name !== "webhook" || guard === undefined) return new URL(channel.url);
  return guardedUrl(await guard(env, channel.url), "ALERTS_WEBHOOK_URL");
}

function requestOf(
  channel: Channel,
  notice: AlertNotice,
  place: Place | undefined,
  key: string,
): { headers: Record<string, string>; body: string } {
  const headers = { "content-type": "application/json", "user-agent": "Millrace" };
  if (channel.name === "slack") return { headers, body: slackBody(notice, place) };
  if (channel.name === "telegram") return { headers, body: telegramBody(notice, channel.chat, place) };
  const body = webhookBody(notice, place);
  return { headers: { ...headers, ...signatureOf(channel.secret, key, body) }, body };
}

/** How to find an error in a chat's response with status 200. A receiver of signed webhooks reports errors by the status only. */
const CHATS = { webhook: undefined, slack: refusedBySlack, telegram: refusedByTelegram };

/** Telegram reports success only by `"ok":true` at the start of a response that repeats the message and can be long. */
function refusedByTelegram(body: string): BodyRefusal | undefined {
  const json = objectIn(body);
  if (json?.ok === true || /^\s*\{\s*"ok"\s*:\s*true\s*[,}]/.test(body)) return undefined;
  return refusalIn(body) ?? { status: 400, words: body.trim() === "" ? "nothing" : quoted(body.trim()) };
}

/**
 * Slack's incoming webhook responds with `ok`, or with the name of an error such as `no_service`. Slack's Web API responds to an error with
 * `{"ok":false}`, and a proxy with `{"error":…}` or `{"status":"error"}`.
 */
function refusedBySlack(body: string): BodyRefusal | undefined {
  const text = body.trim();
  return refusalIn(text) ?? (/^[a-z]+(_[a-z]+)+$/.test(text) ? { status: 400, words: quoted(text) } : undefined);
}

/** Finds an error that every chat reports in the same way. An HTML page is the response of a proxy or a sign-in page. */
function refusalIn(body: string): BodyRefusal | undefined {
  if (body.trimStart().startsWith("<")) return { status: 400, words: "that it is a web page" };
  const json = objectIn(body);
  if (!json || !(json.ok === false || json.success === false || json.status === "error" || json.error)) return undefined;
  const { error_code: code, description, error, message } = json;
  const status = Number.isInteger(code) ? code : error === "ratelimited" ? 429 : 400;
  const words = [description, error?.message, error, message].find((one) => typeof one === "string");
  return { status, words: quoted(words ?? body.trim()) };
}

function quoted(words: string): string {
  return `"${beginning(words, MAX_WORDS)}"`;
}

/** Maximum characters of a chat's error text that an error message contains. */
const MAX_WORDS = 100;

/** Permanent errors of Slack and Telegram, and status 410 of a webhook, are not retried, because an operator must fix a variable first. */
const NEXT = "check its variables, then retry the instance";

function mayPass(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429;
}

/** Options of the workflow that sends alerts. */
interface AlertSenderOptions {
  /** Checks the address of the signed webhook before each request. Default: no check, because the operator sets the address. */
  readonly guard?: AddressGuard;
}

/**
 * The workflow that sends alerts to the configured channels, with one step for each channel. A channel that fails does not delay the other
 * channels, and an operator's retry sends only to the failed channel. A consumer starts the workflow: `on(AlertChanged, start(sendAlert))`.
 */
export function alertSender({ guard }: AlertSenderOptions = {}): WorkflowDefinition<AlertNotice, "alert.changed"> {
  const post = postAlert(guard);
  return defineWorkflow({
    name: SEND_ALERT,
    on: AlertChanged,
    async run({ payload: notice, step, envelope: { idempotency_key: id } }) {
      const posts = notice.channels.map((channel) =>
        step.effect("post alert", post, { id: `${id}-${channel}`, channel, notice }, { key: channel }),
      );
      // Waits until the posts to all channels have ended, because a permanent error of one channel would otherwise end the run while
      // another channel waits for a retry.
      const refused = (await Promise.allSettled(posts)).find(({ status }) => status === "rejected");
      if (refused) throw (refused as PromiseRejectedResult).reason;
    },
  });
}

/** Maximum characters of a message in Telegram. Slack shows this number of characters without a click. */
const TELEGRAM_CHARACTERS = 4096;
const SLACK_CHARACTERS = 4000;
/** The longest label or example id in an alert notice. */
const MAX_WORD = 100;
const MAX_NOTE = 500;
/** The longest description of a rule in an alert notice. */
const MAX_MEANING = 300;
const MAX_LABELS = 8;

/** The body of a signed webhook, as Standard Webhooks recommends: type, time and data. */
export function webhookBody({ channels: _, ...notice }: AlertNotice, place?: Place): string {
  return JSON.stringify({ type: `alert.${notice.change}`, timestamp: notice.changed_at, data: { ...notice, url: place?.url ?? null } });
}

/** The body of an alert notice for an incoming webhook of Slack: `mrkdwn`, in which only three characters need escapes. */
export function slackBody(notice: AlertNotice, place?: Place): string {
  const marks: Marks = {
    safe: (said) => escaped(said).replaceAll(/[*_~`]/g, "\u200b$&"),
    bold: (text) => `*${text}*`,
    link: (url, text) => `<${escaped(url)}|${text}>`,
  };
  const text = written(notice, place, marks, SLACK_CHARACTERS);
  return JSON.stringify({ text, unfurl_links: false, unfurl_media: false });
}

/** The body of an alert notice for Telegram's `sendMessage`, in Telegram's HTML. */
export function telegramBody(notice: AlertNotice, chat: string, place?: Place): string {
  const link = (url: string, text: string) => `<a href="${escaped(url)}">${text}</a>`;
  const text = written(notice, place, { safe: escaped, bold: (said) => `<b>${said}</b>`, link }, TELEGRAM_CHARACTERS);
  return JSON.stringify({ chat_id: chat, text, parse_mode: "HTML", link_preview_options: { is_disabled: true } });
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

interface Marks {
  readonly safe: (text: string) => string;
  readonly bold: (escaped: string) => string;
  readonly link: (url: string, escaped: string) => string;
}

const WORDS: Record<AlertNotice["change"], string> = {
  firing: " began",
  escalated: " is worse",
  eased: " is better",
  repeated: " lasts",
  resolved: " is over",
};
/** Words for the resolved notice of an alert about recent events: the end of such an alert does not repair the events. */
const NO_MORE = ": no more came";

/**
 * An alert notice in a few lines. If the notice is too long for the channel, whole lines are dropped from the end, so that no markup is
 * cut.
 */
function written(notice: AlertNotice, place: Place | undefined, { safe, bold, link }: Marks, most: number): string {
  const { severity, rule, change, labels, count, examples, since, last_at, meaning, doc, alert_id, note } = notice;
  const word = (text: string) => safe(shortened(text, MAX_WORD));
  const isOver = change === "resolved";
  const isOfArrivals = count !== null;
  const sign = isOver ? (isOfArrivals ? "⚪" : "✅") : severity === "critical" ? "🔴" : "🟡";
  const named = Object.entries(labels).slice(0, MAX_LABELS);
  const lines = [
    `${sign} ${bold(`${severity} ${word(rule)}${isOver && isOfArrivals ? NO_MORE : WORDS[change]}`)}${place ? ` at ${word(place.host)}` : ""}`,
    ...(named.length > 0 ? [named.map(([name, said]) => `${word(name)} ${word(said)}`).join(", ")] : []),
    safe(shortened(meaning, MAX_MEANING)),
    ...(note ? [`${word(note.by)}: ${safe(shortened(note.text, MAX_NOTE))}`] : []),
    ...(place ? [link(place.url, "Open in the console")] : []),
    howMuch(notice),
    isOver ? `from ${since} to ${last_at}` : `since ${since}, last ${last_at}`,
    ...(examples.length > 0
      ? [`such as ${examples.map((id) => (place ? link(place.ofExample(id), word(id)) : word(id))).join(", ")}`]
      : []),
    `alert ${word(alert_id)}, ${word(doc)}`,
  ];
  while (characterCount(lines.join("\n")) > most) lines.pop();
  return lines.join("\n");
}

/** The count or the current value of an alert. For a resolved alert, the alert's last value. */
function howMuch({ change, count, value, above }: AlertNotice): string {
  const isOver = change === "resolved";
  const bound = above === null || isOver ? "" : `, bound ${rounded(above)}`;
  if (count === null) return `${isOver ? "last " : ""}at ${rounded(value)}${bound}`;
  const times = count === 1 ? "once" : `${count} times`;
  // A bound of 0 is not shown, because the count already implies that the bound was exceeded.
  return isOver || !above ? times : `${times}, ${rounded(value)} in the last five minutes${bound}`;
}

function rounded(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}

/** The links to the console in an alert notice. */
interface Place {
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
