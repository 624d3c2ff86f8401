import { Webhook } from "standardwebhooks";
import { MillraceError, notRetryable, upstreamRefused } from "../../contract/errors.ts";
import { defineStep, type StepDefinition } from "../../guard/step.ts";
import { wordOf } from "../../limits/upstream.ts";
import { type AlertVars, type Channel, type ChannelName, channelOf } from "./channels.ts";
import { slackBody, telegramBody, webhookBody } from "./format.ts";
import type { AlertNotice } from "./notice.ts";

/** What a deployment says of an address before a signed webhook goes there: it may; it may not; or nobody can say for now. */
export type Guarded = { verdict: "public"; url: URL } | { verdict: "refused"; reason: string } | { verdict: "unknown"; reason: string };

/** Judges the address of a signed webhook. */
export type AddressGuard = (env: Cloudflare.Env, url: string) => Promise<Guarded>;

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
/** What somebody must be told is put off for so long at most, whatever a channel asks for. */
const MAX_PUT_OFF_MS = 300_000;
const ANSWER_BYTES = 1024;

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
      const channel = channelOf(name, env as unknown as AlertVars);
      if (channel === undefined) return { state: "off", status: null };
      const response = await fetch(await targetOf(env, channel, guard), {
        method: "POST",
        ...requestOf(channel, notice, key),
        redirect: "manual",
        signal,
      }).catch(() => {
        throw new MillraceError("unavailable", `${name} cannot be reached, or gave no answer in time.`);
      });
      await assertTaken(name, response);
      return { state: "sent", status: response.status };
    },
  });
}

async function targetOf(env: Cloudflare.Env, channel: Channel, guard: AddressGuard | undefined): Promise<URL> {
  if (channel.name !== "webhook" || guard === undefined) return new URL(channel.url);
  const guarded = await guard(env, channel.url);
  if (guarded.verdict === "refused") throw notRetryable(`Not sent: ALERTS_WEBHOOK_URL ${guarded.reason}.`);
  if (guarded.verdict === "unknown") throw new MillraceError("unavailable", `Not sent: ${guarded.reason}.`);
  return guarded.url;
}

function requestOf(channel: Channel, notice: AlertNotice, key: string): { headers: Record<string, string>; body: string } {
  const headers = { "content-type": "application/json", "user-agent": "Millrace" };
  if (channel.name === "slack") return { headers, body: slackBody(notice) };
  if (channel.name === "telegram") return { headers, body: telegramBody(notice, channel.chat) };
  const body = webhookBody(notice);
  const at = new Date();
  const signed = {
    "webhook-id": key,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": new Webhook(channel.secret).sign(key, at, body),
  };
  return { headers: { ...headers, ...signed }, body };
}

/**
 * Returns for 2xx. What Slack and Telegram refuse for good, and 410 of a webhook, is not tried again: somebody must mend a variable first.
 */
async function assertTaken(name: ChannelName, response: Response): Promise<void> {
  const said = `${name} answered ${response.status}`;
  const { status } = response;
  const asked = wordOf(response)?.refusedForMs ?? (status === 429 ? await waitIn(response) : undefined);
  await response.body?.cancel().catch(() => undefined);
  if (response.ok) return;
  if (asked !== undefined) {
    const putOffMs = Math.min(Math.max(1000, asked), MAX_PUT_OFF_MS);
    // As what is out of reach: one that asks for a second at every try would have used up all tries within seconds.
    const message = `${said} and asked for ${Math.ceil(asked / 1000)} seconds.`;
    throw new MillraceError("unavailable", message, { delayMs: putOffMs, upstreamStatus: status });
  }
  const mayPass = status >= 500 || status === 408 || status === 425 || status === 429;
  const isFinal = name === "webhook" ? status === 410 : !mayPass;
  throw isFinal
    ? notRetryable(`${said}: see whether its variables are right, then retry the instance.`, status)
    : upstreamRefused(`${said}.`, status);
}

/** Telegram says in its body how long to wait. */
async function waitIn(response: Response): Promise<number | undefined> {
  try {
    const reader = response.body?.getReader();
    const read = await reader?.read();
    await reader?.cancel();
    const body = JSON.parse(new TextDecoder().decode(read?.value?.subarray(0, ANSWER_BYTES)));
    const seconds = body?.parameters?.retry_after;
    return Number.isInteger(seconds) && seconds > 0 ? seconds * 1000 : undefined;
  } catch {
    return undefined;
  }
}
