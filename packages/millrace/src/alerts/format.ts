import { characterCount, shortened } from "../contract/text.ts";
import type { AlertNotice } from "./notice.ts";
import type { Place } from "./place.ts";

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
