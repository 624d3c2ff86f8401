import { createHmac } from "node:crypto";
import { MillraceError } from "../contract/errors.ts";
import { assertSecret } from "../contract/ids.ts";
import { isHttpAddress } from "../contract/settings.ts";

/** The channels to which alerts are sent. */
export const CHANNELS = ["webhook", "slack", "telegram"] as const;
export type ChannelName = (typeof CHANNELS)[number];

/** The variables and secrets that configure the channels of alerts. Without a configured channel, alerts are only listed and logged. */
export interface AlertVars {
  MILLRACE_KEY: string;
  /** The URL of a receiver of signed webhooks for alerts. */
  ALERTS_WEBHOOK_URL?: string;
  /** The secret that signs alert webhooks: `whsec_` and base64; default: derived from `MILLRACE_KEY`. */
  ALERTS_WEBHOOK_SECRET?: string;
  /** The URL of an incoming webhook of Slack. The URL is a secret. */
  ALERTS_SLACK_URL?: string;
  /** The token of a Telegram bot, and the chat to which the bot writes. */
  ALERTS_TELEGRAM_TOKEN?: string;
  ALERTS_TELEGRAM_CHAT?: string;
  /** Default `https://api.telegram.org`. */
  ALERTS_TELEGRAM_URL?: string;
  /** The public URL of this deployment, which alert notices use for links. */
  PUBLIC_URL?: string;
  /** The tenant to which messages and instances of alerts belong. */
  ALERTS_TENANT?: string;
}

const TELEGRAM_URL = "https://api.telegram.org";

/** A channel for alerts, with all values that a request to it needs. */
export type Channel =
  | { readonly name: "webhook"; readonly url: string; readonly secret: string }
  | { readonly name: "slack"; readonly url: string }
  | { readonly name: "telegram"; readonly url: string; readonly chat: string };

/** A deployment's channel; undefined if the channel is not configured. Errors: `config_invalid`, with the variable to set or to fix. */
export function channelOf(name: ChannelName, env: AlertVars): Channel | undefined {
  const channel = configuredAs(name, env);
  const wrong = channel && whatIsWrong(channel.url);
  if (wrong === undefined) return channel;
  throw new MillraceError("config_invalid", `Alerts cannot be sent to ${name}: ${URLS[name]} ${wrong}. Set it again.`);
}

function whatIsWrong(address: string): string | undefined {
  if (!isHttpAddress(address)) return "does not begin with https://";
  const { username, password } = new URL(address);
  return username || password ? "must not contain a user or a password" : undefined;
}

/** For each alert channel, the variable with the channel's URL. */
const URLS = { webhook: "ALERTS_WEBHOOK_URL", slack: "ALERTS_SLACK_URL", telegram: "ALERTS_TELEGRAM_URL" } as const;

function configuredAs(name: ChannelName, env: AlertVars): Channel | undefined {
  const { ALERTS_WEBHOOK_URL, ALERTS_SLACK_URL, ALERTS_TELEGRAM_TOKEN, ALERTS_TELEGRAM_CHAT } = env;
  if (name === "webhook") return ALERTS_WEBHOOK_URL ? { name, url: ALERTS_WEBHOOK_URL, secret: webhookSecret(env) } : undefined;
  if (name === "slack") return ALERTS_SLACK_URL ? { name, url: ALERTS_SLACK_URL } : undefined;
  if (!ALERTS_TELEGRAM_TOKEN && !ALERTS_TELEGRAM_CHAT) return undefined;
  if (!ALERTS_TELEGRAM_TOKEN || !ALERTS_TELEGRAM_CHAT) {
    const missing = ALERTS_TELEGRAM_TOKEN ? "ALERTS_TELEGRAM_CHAT" : "ALERTS_TELEGRAM_TOKEN";
    throw new MillraceError(
      "config_invalid",
      `Alerts cannot be sent to Telegram: ${missing} is not set. Set it, or remove the other variable.`,
    );
  }
  const url = `${env.ALERTS_TELEGRAM_URL || TELEGRAM_URL}/bot${ALERTS_TELEGRAM_TOKEN}/sendMessage`;
  return { name, url, chat: ALERTS_TELEGRAM_CHAT };
}

/** The secret that signs alerts, configured or derived from `MILLRACE_KEY`. Errors: `config_invalid` for an invalid secret. */
function webhookSecret({ MILLRACE_KEY, ALERTS_WEBHOOK_SECRET }: AlertVars): string {
  if (ALERTS_WEBHOOK_SECRET) {
    if (/^whsec_[A-Za-z0-9+/]{32,}={0,2}$/.test(ALERTS_WEBHOOK_SECRET)) return ALERTS_WEBHOOK_SECRET;
    throw new MillraceError("config_invalid", "ALERTS_WEBHOOK_SECRET is invalid: set `whsec_` and at least 24 bytes in base64.");
  }
  assertSecret(MILLRACE_KEY);
  return `whsec_${createHmac("sha256", MILLRACE_KEY).update("alerts webhook").digest("base64")}`;
}
