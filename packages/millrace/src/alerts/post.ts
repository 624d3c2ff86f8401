import { assertTaken, type BodyRefusal, guardedUrl, objectIn, signatureOf } from "../callbacks/receiver.ts";
import type { AddressGuard } from "../contract/address-guard.ts";
import { MillraceError } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { defineStep, type StepDefinition } from "../guard/step.ts";
import { defineWorkflow, type WorkflowDefinition } from "../workflow/workflow.ts";
import { type AlertVars, type Channel, type ChannelName, channelOf } from "./channels.ts";
import { slackBody, telegramBody, webhookBody } from "./format.ts";
import { AlertChanged, type AlertNotice, SEND_ALERT } from "./notice.ts";
import { type Place, placeOf } from "./place.ts";

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
