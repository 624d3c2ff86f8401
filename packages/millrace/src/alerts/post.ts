import { assertTaken, type BodyRefusal, guardedUrl, objectIn, signatureOf } from "../callbacks/receiver.ts";
import type { AddressGuard } from "../contract/address-guard.ts";
import { MillraceError } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { defineStep, type StepDefinition } from "../guard/step.ts";
import { type AlertVars, type Channel, type ChannelName, channelOf } from "./channels.ts";
import { slackBody, telegramBody, webhookBody } from "./format.ts";
import type { AlertNotice } from "./notice.ts";
import { type Place, placeOf } from "./place.ts";

/** One notice on its way to one channel. */
interface Posting {
  /** Names the notice: the same at every attempt, restart and retry. */
  readonly id: string;
  readonly channel: ChannelName;
  readonly notice: AlertNotice;
}

/** `off`: the channel is not configured any more. */
interface Posted {
  readonly state: "sent" | "off";
  readonly status: number | null;
}

/** For 20 minutes, after which an operator retries the instance: 2 seconds behind the first try, a minute behind the last ones. */
const RETRIES = { limit: 35, delay: "2 seconds", backoff: "linear" } as const;

/**
 * Posts a notice to a channel. Receivers of signed webhooks know it by `webhook-id`; to Slack and Telegram, which know no keys, one whose
 * answer was lost is posted again. No error names an address: those of Slack and Telegram are secrets.
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
        throw new MillraceError("unavailable", `${name} cannot be reached, or gave no answer in time.`);
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

/** How a chat says no by a 200. A receiver of signed webhooks answers by its status alone. */
const CHATS = { webhook: undefined, slack: refusedBySlack, telegram: refusedByTelegram };

/** Telegram says yes by `"ok":true` alone, at the beginning of an answer that repeats the message and may be long. */
function refusedByTelegram(body: string): BodyRefusal | undefined {
  const json = objectIn(body);
  if (json?.ok === true || /^\s*\{\s*"ok"\s*:\s*true\s*[,}]/.test(body)) return undefined;
  return refusalIn(body) ?? { status: 400, words: body.trim() === "" ? "nothing" : quoted(body.trim()) };
}

/**
 * An incoming webhook of Slack that took a message answers `ok`, and otherwise a word such as `no_service`; Slack's Web API answers
 * `{"ok":false}`, and a proxy in front of either `{"error":…}` or `{"status":"error"}`.
 */
function refusedBySlack(body: string): BodyRefusal | undefined {
  const text = body.trim();
  return refusalIn(text) ?? (/^[a-z]+(_[a-z]+)+$/.test(text) ? { status: 400, words: quoted(text) } : undefined);
}

/** What is a refusal from every chat. A page of HTML is a proxy's or a sign-in's. */
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

/** Characters of a chat's own words in an error. */
const MAX_WORDS = 100;

/** What Slack and Telegram refuse for good, and 410 of a webhook, is not tried again: somebody must mend a variable first. */
const NEXT = "see whether its variables are right, then retry the instance";

function mayPass(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429;
}
