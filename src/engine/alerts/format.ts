import { characterCount, shortened } from "../contract/text.ts";
import type { AlertNotice } from "./notice.ts";

/** Telegram takes so many characters of a message, Slack shows so many at once. */
const TELEGRAM_CHARACTERS = 4096;
const SLACK_CHARACTERS = 4000;
/** A label, or an example, in a message for people. */
const MAX_WORD = 100;
const MAX_NOTE = 500;
/** What a rule says, in a sentence or two. */
const MAX_MEANING = 300;
const MAX_LABELS = 8;

/** What a receiver of signed webhooks reads: the form that Standard Webhooks recommends, a type, a time and the data. */
export function webhookBody({ channels: _, ...notice }: AlertNotice): string {
  return JSON.stringify({ type: `alert.${notice.change}`, timestamp: notice.changed_at, data: notice });
}

/** The body of a post to an incoming webhook of Slack: `mrkdwn`, in which only three characters mean something else. */
export function slackBody(notice: AlertNotice): string {
  const bold = (text: string) => `*${text}*`;
  const text = written(notice, { safe: (said) => escaped(said).replaceAll(/[*_~`]/g, "\u200b$&"), bold }, SLACK_CHARACTERS);
  return JSON.stringify({ text, unfurl_links: false, unfurl_media: false });
}

/** The body of Telegram's `sendMessage`, in its HTML. */
export function telegramBody(notice: AlertNotice, chat: string): string {
  const text = written(notice, { safe: escaped, bold: (said) => `<b>${said}</b>` }, TELEGRAM_CHARACTERS);
  return JSON.stringify({ chat_id: chat, text, parse_mode: "HTML", link_preview_options: { is_disabled: true } });
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** How a channel marks text. */
interface Marks {
  readonly safe: (text: string) => string;
  readonly bold: (escaped: string) => string;
}

const WORDS: Record<AlertNotice["change"], string> = {
  firing: "began",
  escalated: "is worse",
  eased: "is better",
  repeated: "lasts",
  resolved: "is over",
};

/** A notice in a few lines. Lines are left out, the last first, where it would be longer than its channel takes: none is cut in a mark. */
function written(notice: AlertNotice, { safe, bold }: Marks, most: number): string {
  const { severity, rule, change, labels, value, above, count, examples, since, last_at, meaning, doc, alert_id, note } = notice;
  const word = (text: string) => safe(shortened(text, MAX_WORD));
  const sign = change === "resolved" ? "✅" : severity === "critical" ? "🔴" : "🟡";
  const named = Object.entries(labels).slice(0, MAX_LABELS);
  const lines = [
    `${sign} ${bold(`${severity} ${word(rule)} ${WORDS[change]}`)}`,
    ...(named.length > 0 ? [named.map(([name, said]) => `${word(name)} ${word(said)}`).join(", ")] : []),
    safe(shortened(meaning, MAX_MEANING)),
    ...(note ? [`${word(note.by)}: ${safe(shortened(note.text, MAX_NOTE))}`] : []),
    `${count === null ? "" : `${count} times, `}value ${rounded(value)}${above === null ? "" : `, told above ${rounded(above)}`}`,
    `since ${since}, last ${last_at}`,
    ...(examples.length > 0 ? [`such as ${examples.map(word).join(", ")}`] : []),
    `alert ${word(alert_id)}, ${word(doc)}`,
  ];
  while (characterCount(lines.join("\n")) > most) lines.pop();
  return lines.join("\n");
}

function rounded(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}
