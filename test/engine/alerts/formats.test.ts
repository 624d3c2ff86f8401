import fc from "fast-check";
import { type MillraceError, type TraceContext, texts } from "millrace";
import { describe, expect, it } from "vitest";
import { type ChannelName, channelOf } from "../../../packages/millrace/src/alerts/channels.ts";
import type { AlertNotice } from "../../../packages/millrace/src/alerts/notice.ts";
import { placeOf, postAlert, slackBody, telegramBody, webhookBody } from "../../../packages/millrace/src/alerts/post.ts";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import type { Retries } from "../../../packages/millrace/src/guard/step.ts";
import { nextDelayMs } from "../../../packages/millrace/src/workflow/step-attempts.ts";
import { app } from "../../probe/worker.ts";
import { probeEnv, rows, until } from "../harness.ts";
import { addressThat, calmly, receiver, vars } from "./raising.ts";

calmly();

const at = "2026-10-01T09:30:00.000Z";
const NOTICE: AlertNotice = {
  alert_id: "0123456789abcdef0123456789abcdef",
  change: "firing",
  rule: "dlq_depth",
  severity: "critical",
  labels: { queue: "orders & <returns>" },
  value: 101,
  above: 100,
  count: null,
  examples: ["a", "b"],
  since: at,
  last_at: at,
  changed_at: at,
  meaning: "Letters *wait*.",
  doc: "docs/operating.md",
  channels: ["slack"],
};

const placed = (PUBLIC_URL?: string, notice = NOTICE) => placeOf({ ...(PUBLIC_URL !== undefined && { PUBLIC_URL }) }, notice);

describe("Notifications", () => {
  it("the notification for a signed webhook has a type, a time and the data", () => {
    const { channels: _, ...data } = NOTICE;
    expect(JSON.parse(webhookBody(NOTICE))).toEqual({ type: "alert.firing", timestamp: at, data: { ...data, url: null } });
    expect(JSON.parse(webhookBody(NOTICE, placed("https://orders.example"))).data.url).toBe(
      "https://orders.example/console/dead-letters?queue=orders+%26+%3Creturns%3E",
    );
  });

  it("the Slack text of a notification escapes labels, so that no label produces markup or a mention", () => {
    const { text, ...more } = JSON.parse(slackBody(NOTICE));
    expect(text.split("\n").slice(0, 3)).toEqual([
      "🔴 *critical dlq\u200b_depth began*",
      "queue orders &amp; &lt;returns&gt;",
      "Letters \u200b*wait\u200b*.",
    ]);
    expect(more).toEqual({ unfurl_links: false, unfurl_media: false });
  });

  it("the notification for Telegram is HTML with the three special characters escaped", () => {
    const body = JSON.parse(telegramBody(NOTICE, "-100"));
    expect(body).toMatchObject({ chat_id: "-100", parse_mode: "HTML", link_preview_options: { is_disabled: true } });
    expect(body.text.split("\n").slice(0, 2)).toEqual(["🔴 <b>critical dlq_depth began</b>", "queue orders &amp; &lt;returns&gt;"]);
  });

  it("a notification names the deployment and links to the item or the filtered list", () => {
    const env = "https://orders.example/";
    const letter = { ...NOTICE, rule: "dead_letter_arrived", examples: ["a_b"], labels: { queue: "orders" } };
    const slack = JSON.parse(slackBody(letter, placed(env, letter))).text.split("\n");
    expect(slack[0]).toBe("🔴 *critical dead\u200b_letter\u200b_arrived began* at orders.example");
    expect(slack).toContain("<https://orders.example/console/dead-letters/a_b|Open in the console>");
    expect(slack).toContain("such as <https://orders.example/console/dead-letters/a_b|a\u200b_b>");
    const html = JSON.parse(telegramBody(NOTICE, "-100", placed(env))).text;
    expect(html).toContain('<a href="https://orders.example/console/dead-letters?queue=orders+%26+%3Creturns%3E">Open in the console</a>');
    expect(html).toContain('such as <a href="https://orders.example/console/dead-letters/a">a</a>');
    const urlOf = (more: Partial<AlertNotice>) => placed("http://a.example/under/", { ...NOTICE, examples: [], ...more })?.url;
    expect(urlOf({ rule: "instances_errored", labels: { workflow: "ship", code: "x" } })).toBe(
      "http://a.example/under/console/instances?status=errored&workflow=ship",
    );
    expect(urlOf({ rule: "instances_overdue", examples: ["i"] })).toBe("http://a.example/under/console/instances/i");
    expect(urlOf({ rule: "queue_depth" })).toBe("http://a.example/under/console/queues");
    expect(urlOf({ rule: "keeper_late", labels: {} })).toBe("http://a.example/under/console/to-do/alerts?rule=keeper_late");
  });

  it.each(["orders.example", "https://ada:secret@orders.example", "ftp://orders.example", " ", undefined])(
    "a notification has no link when PUBLIC_URL is %s",
    (said) => {
      expect(placed(said)).toBeUndefined();
      expect(JSON.parse(slackBody(NOTICE, placed(said))).text).not.toContain("console");
    },
  );

  it("a notification about frequent events has their number; one about missing events reports only that none came", () => {
    const saidOf = (more: Partial<AlertNotice>) => JSON.parse(telegramBody({ ...NOTICE, ...more }, "1")).text as string;
    expect(saidOf({})).toContain("\nat 101, bound 100\n");
    expect(saidOf({ count: 1, value: 1, above: 0 })).toContain("\nonce\n");
    expect(saidOf({ count: 150, value: 120 })).toContain("\n150 times, 120 in the last five minutes, bound 100\n");
    const over = saidOf({ change: "resolved", value: 3 });
    expect(over.split("\n")[0]).toBe("✅ <b>critical dlq_depth is over</b>");
    expect(over).toContain(`\nlast at 3\nfrom ${at} to ${at}\n`);
    const noMore = saidOf({ change: "resolved", rule: "dead_letter_arrived", severity: "warning", count: 3, value: 1, above: 0 });
    expect(noMore.split("\n")[0]).toBe("⚪ <b>warning dead_letter_arrived: no more came</b>");
    expect(noMore).toContain("\n3 times\nfrom ");
  });

  it("a notification is at most as long as its channel accepts, and no character in it is cut", () => {
    const word = fc.string({ unit: fc.constantFrom("&", "<", ">", "*", "_", "`", "a", "🧾"), maxLength: 3000 });
    fc.assert(
      fc.property(fc.dictionary(word, word, { maxKeys: 20 }), fc.array(word, { maxLength: 3 }), word, (labels, examples, meaning) => {
        const notice = { ...NOTICE, labels, examples, meaning };
        const place = placed("https://orders.example", notice);
        const telegram = JSON.parse(telegramBody(notice, "1", place)).text as string;
        const slack = JSON.parse(slackBody(notice, place)).text as string;
        expect(texts.characterCount(telegram)).toBeLessThanOrEqual(4096);
        expect(texts.characterCount(slack)).toBeLessThanOrEqual(4000);
        const told = [telegram.replaceAll(/<a href="[^"<>]*">|<\/a>|<\/?b>/g, ""), slack.replaceAll(/<https:[^|<>]*\|([^<>]*)>/g, "$1")];
        for (const text of told) expect(text.replaceAll(/&(amp|lt|gt);/g, "")).not.toMatch(/[<>&]/);
      }),
      { numRuns: 100 },
    );
  });
});

describe("Alert channels", () => {
  /** A success in Telegram's format. */
  const TAKEN = [{ status: 200, text: '{"ok":true}', times: 9 }];
  const raise = () =>
    raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges: [{ name: "effects_in_doubt", labels: {}, value: 1 }] });
  const only = (said: Record<string, string>) => {
    for (const name of ["ALERTS_WEBHOOK_URL", "ALERTS_WEBHOOK_SECRET"]) delete vars[name];
    Object.assign(vars, said);
  };
  const ended = (status: string) =>
    until(
      () =>
        rows<{ code: string | null }>(
          "SELECT error->>'code' AS code FROM millrace_instances WHERE workflow = 'send-alert' AND status = ?1 AND updated_at > 1 ORDER BY accepted_at DESC",
          status,
        ),
      (found) => found.length > 0,
    );

  it("each alert channel gets its own format with the same id at every attempt; a failing channel does not delay the others", async () => {
    const treatments = [{ status: 503, times: 1 }, ...TAKEN];
    const { url, requests } = await receiver({ treatments });
    const telegram = { ALERTS_TELEGRAM_TOKEN: "1:a", ALERTS_TELEGRAM_CHAT: "7", ALERTS_TELEGRAM_URL: url };
    Object.assign(vars, { ALERTS_SLACK_URL: url, ...telegram });
    await raise();
    const seen = await requests(4);
    expect(seen).toHaveLength(4);
    const bodies = seen.filter(({ answered }) => answered === 200).map(({ body }) => Object.keys(JSON.parse(body)));
    expect(bodies.toSorted((one, other) => other.join().localeCompare(one.join()))).toEqual([
      ["type", "timestamp", "data"],
      ["text", "unfurl_links", "unfurl_media"],
      ["chat_id", "text", "parse_mode", "link_preview_options"],
    ]);
  });

  it("a channel's permanent refusal ends the run of a notification only after every other channel has accepted it", async () => {
    const refusing = await receiver({ treatments: [{ status: 410, times: 9 }] });
    const late = await addressThat([{ status: 503, times: 3 }]);
    vars.ALERTS_SLACK_URL = late.url;
    await raise();
    await ended("errored");
    expect((await refusing.requests()).map(({ answered }) => answered)).toEqual([410]);
    expect((await late.requests()).map(({ answered }) => answered)).toEqual([503, 503, 503, 204]);
  });

  it("a permanent refusal of Slack is not retried, and its error does not contain the webhook address", async () => {
    const { url, requests } = await receiver({ treatments: [{ status: 404, times: 9 }] });
    only({ ALERTS_SLACK_URL: url });
    await raise();
    expect(await ended("errored")).toMatchObject([{ code: "not_retryable" }]);
    expect(await requests()).toHaveLength(1);
    const [{ error = "" } = {}] = await rows<{ error: string }>(
      "SELECT error FROM millrace_instances WHERE workflow = 'send-alert' ORDER BY accepted_at DESC LIMIT 1",
    );
    expect(error).toContain("slack answered 404");
    expect(error).not.toContain("127.0.0.1");
  });

  it("a notification is sent again after a rate-limit answer of Telegram", async () => {
    const text = JSON.stringify({ ok: false, parameters: { retry_after: 1 } });
    const { url, requests } = await receiver({ treatments: [{ status: 429, text, times: 1 }, ...TAKEN] });
    only({ ALERTS_TELEGRAM_TOKEN: "1:a", ALERTS_TELEGRAM_CHAT: "7", ALERTS_TELEGRAM_URL: url });
    await raise();
    expect((await requests(2)).map(({ answered }) => answered)).toEqual([429, 200]);
  });

  const refusalOf = (answer: Response, channel: ChannelName = "slack") => {
    const call = { input: { id: "n", channel, notice: NOTICE }, key: "n", trace: {} as TraceContext };
    const url = "https://chat.invalid/hook";
    const env = {
      ...{ MILLRACE_KEY: "key", ALERTS_SLACK_URL: url, ALERTS_WEBHOOK_URL: url },
      ...{ ALERTS_TELEGRAM_TOKEN: "1:a", ALERTS_TELEGRAM_CHAT: "7" },
    } as unknown as Cloudflare.Env;
    const said = postAlert(undefined).run({
      ...call,
      env,
      signal: AbortSignal.timeout(1000),
      progress: () => undefined,
      fetch: async () => answer,
    });
    return said.then(() => undefined).catch((error: MillraceError) => error);
  };

  it.each([
    ["nothing", 500, {}],
    ["a second's patience", 503, { "retry-after": "1" }],
  ])(
    "a notification is retried for 20 minutes to one hour when each answer refuses it and requests a delay of %s",
    async (_, status, headers) => {
      const { retries } = postAlert(undefined);
      const refused = await refusalOf(new Response(null, { status, headers }));
      const pauses = Array.from({ length: retries?.limit ?? 0 }, (_, index) => nextDelayMs(retries as Retries, index + 1, refused));
      const minutes = pauses.reduce((sum, ms) => sum + ms, 0) / 60_000;
      expect([minutes >= 20, minutes < 60, Math.max(...pauses) <= 300_000]).toEqual([true, true, true]);
    },
  );

  it("a notification is retried after five minutes when a channel requests a delay of one day", async () => {
    const text = JSON.stringify({ parameters: { retry_after: 86_400 } });
    const busy = [
      new Response(null, { status: 503, headers: { "retry-after": "86400" } }),
      new Response(text, { status: 429 }),
      new Response(null, { status: 429, headers: { "retry-after": "0" } }),
    ];
    const asked = await Promise.all(busy.map(async (answer) => (await refusalOf(answer))?.detail.delayMs));
    // With 0, the retry options of the step set the delay.
    expect(asked).toEqual([300_000, 300_000, undefined]);
  });

  it.each<[ChannelName, string, string, object]>([
    ["telegram", "Telegram's ok: false", '{"ok":false,"error_code":400,"description":"chat not found"}', { code: "not_retryable" }],
    [
      "telegram",
      "Telegram's ok: false with a retry delay",
      '{"ok":false,"error_code":429,"parameters":{"retry_after":7}}',
      { code: "unavailable", detail: { delayMs: 7000, upstreamStatus: 429 } },
    ],
    ["telegram", "Telegram's ok: false for an internal error", '{"ok":false,"error_code":502}', { code: "upstream_refused" }],
    ["slack", "an error text of Slack", "no_service", { code: "not_retryable", message: expect.stringContaining('"no_service"') }],
    ["slack", "ok: false of Slack's Web API", '{"ok":false,"error":"channel_not_found"}', { code: "not_retryable" }],
    ["slack", "a rate limit of Slack's Web API", '{"ok":false,"error":"ratelimited"}', { code: "upstream_refused" }],
    ["slack", "the error page of a proxy", '{"status":"error","message":"no route"}', { message: expect.stringContaining('"no route"') }],
    [
      "slack",
      "an error without a status",
      '{"error":{"message":"denied"}}',
      { code: "not_retryable", message: expect.stringContaining('"denied"') },
    ],
    ["telegram", "an empty body", "", { code: "not_retryable", message: expect.stringContaining("its body says nothing") }],
    ["telegram", "another service's JSON", '{"status":"ok"}', { code: "not_retryable" }],
    ["telegram", "a word", "ok", { code: "not_retryable", message: expect.stringContaining('"ok"') }],
    ["slack", "a sign-in page", "<!doctype html><title>Sign in</title>", { code: "not_retryable" }],
  ])("a notification is not delivered when %s answers 200 with %s", async (channel, _, body, refused) => {
    expect(await refusalOf(new Response(body), channel)).toMatchObject(refused);
  });

  it.each<[ChannelName, string]>([
    ["slack", '{"ok":false,"error":"ratelimited"}'],
    ["slack", '{"status":"error"}'],
    ["telegram", '{"ok":false,"error_code":429}'],
  ])("the next try of a notification waits for Retry-After when %s answers 200 with %j", async (channel, body) => {
    const refused = await refusalOf(new Response(body, { headers: { "retry-after": "7" } }), channel);
    expect(refused).toMatchObject({ code: "unavailable", detail: { delayMs: 7000 } });
  });

  it.each<[ChannelName, string]>([
    ["slack", "ok"],
    ["slack", '{"ok":true,"error":null}'],
    ["slack", ""],
    ["slack", '{"success":true}'],
    ["telegram", `{"ok":true,"result":{"text":"${"x".repeat(10_000)}"}}`],
    // For signed webhooks only the HTTP status decides, not the body.
    ["webhook", '{"ok":false}'],
  ])("a notification is delivered when %s answers 200 with %j", async (channel, body) => {
    expect(await refusalOf(new Response(body), channel)).toBeUndefined();
  });

  it("an alert channel with missing variables or an invalid secret is refused; without a secret the signing secret is derived", () => {
    const codeOf = (name: ChannelName, said: object) => {
      try {
        channelOf(name, { MILLRACE_KEY: "key", ...said });
      } catch (error) {
        return (error as MillraceError).message;
      }
    };
    expect(codeOf("webhook", { ALERTS_WEBHOOK_URL: "pager" })).toContain("ALERTS_WEBHOOK_URL does not begin with");
    expect(codeOf("slack", { ALERTS_SLACK_URL: "ftp://a.example/secret" })).toContain("ALERTS_SLACK_URL does not begin with https://");
    expect(codeOf("webhook", { ALERTS_WEBHOOK_URL: "localhost:4318/hook" })).toContain("ALERTS_WEBHOOK_URL does not begin with");
    const withPassword = codeOf("webhook", { ALERTS_WEBHOOK_URL: "https://user:pw777@a.example" });
    expect(withPassword).toContain("ALERTS_WEBHOOK_URL must not contain a user or a password");
    expect(withPassword).not.toContain("pw777");
    expect(codeOf("telegram", { ALERTS_TELEGRAM_CHAT: "1" })).toContain("ALERTS_TELEGRAM_TOKEN is not set");
    expect(codeOf("webhook", { ALERTS_WEBHOOK_URL: "https://a.example", ALERTS_WEBHOOK_SECRET: "secret" })).toContain("whsec_");
    // printf %s 'alerts webhook' | openssl dgst -sha256 -hmac key -binary | base64
    expect(channelOf("webhook", { MILLRACE_KEY: "key", ALERTS_WEBHOOK_URL: "https://a.example" })).toMatchObject({
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    });
  });
});
