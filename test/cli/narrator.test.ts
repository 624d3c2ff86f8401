import { join } from "node:path";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { narrator } from "../../packages/millrace/cli/local/narrator.ts";

const at = { url: "http://localhost:8787", tokenFile: join(process.cwd(), ".millrace/token") };
const AUTH = '-H "Authorization: Bearer $(cat .millrace/token)"';
const WARNING = "\u001b[33m▲ \u001b[43;33m[\u001b[43;30mWARNING\u001b[43;33m]\u001b[0m \u001b[1m";
const ERROR = "\u001b[31m✘ \u001b[41;31m[\u001b[41;97mERROR\u001b[41;31m]\u001b[0m \u001b[1m";
const order = { instance_id: "abc", workflow: "place-order", tenant_id: "acme", subject: "42" };
const attempt = `${WARNING}${JSON.stringify({ log: "attempt", ...order, step: "charge card", attempt: 1, outcome: "retried", code: "unavailable", error: "The shop answered 500." })}\u001b[0m`;
const uncaught = (said: string) => `${ERROR}Uncaught ${said}\u001b[0m`;

function listener() {
  const heard: string[] = [];
  return { heard, hear: narrator(at, (sentence) => heard.push(sentence)) };
}

describe("The terminal's report of errors", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    return () => vi.useRealTimers();
  });

  it("the terminal shows a failed attempt with its step, without the runtime's text for the same error", () => {
    const { heard, hear } = listener();
    hear(attempt);
    hear(uncaught("Error: The shop answered 500. (millrace: unavailable) Error"));
    hear("    at charge (file:///shop.ts:1:1)");
    hear(uncaught("Error: NonRetryableError: The shop answered 500. "));
    vi.advanceTimersByTime(10_000);
    expect(heard).toEqual(["place-order 42: charge card, attempt 1, retried: The shop answered 500."]);
  });

  it("the terminal shows an instance of another tenant, with the command to show it", () => {
    const heard: string[] = [];
    const hear = narrator({ ...at, tenant: "acme" }, (sentence) => heard.push(sentence));
    hear(JSON.stringify({ log: "ended", ...order, status: "complete" }));
    hear(JSON.stringify({ log: "ended", ...order, tenant_id: "shop", status: "complete" }));
    hear(JSON.stringify({ log: "ended", ...order, tenant_id: "shop; rm", status: "complete" }));
    expect(heard[0]).not.toContain("tenant");
    expect(heard[1]).toContain("of tenant shop, which the token of acme does not see. To see it: npx millrace dev --tenant shop");
    expect(heard[2]).not.toContain("tenant");
  });

  it("the terminal shows a failed attempt once when the runtime logs the error before the engine", () => {
    const { heard, hear } = listener();
    hear(uncaught("MillraceError: The shop answered 500. Error"));
    hear(attempt);
    vi.advanceTimersByTime(10_000);
    expect(heard).toHaveLength(1);
  });

  it.each(["TypeError: x is not a function", "Error: The shop answered 501.", "Error: "])(
    "the terminal shows, after a delay, a runtime error about which the engine logs no line: %s",
    (said) => {
      const { heard, hear } = listener();
      hear(attempt);
      hear(uncaught(said));
      expect(heard).toHaveLength(1);
      vi.advanceTimersByTime(10_000);
      expect(heard[1]).toBe(`error: Uncaught ${said.trim()}`);
    },
  );

  it("the terminal shows nothing of a run that an operator has stopped or restarted", () => {
    const { heard, hear } = listener();
    hear(uncaught("NonRetryableError: An operator has stopped the run: no further step starts. (millrace: not_retryable, final) Error"));
    vi.advanceTimersByTime(10_000);
    expect(heard).toEqual([]);
  });

  it("the terminal shows that an instance errored, at which step, and how to retry it", () => {
    const { heard, hear } = listener();
    const ended = {
      log: "ended",
      ...order,
      status: "errored",
      step: "charge card",
      attempts: 3,
      code: "unavailable",
      error: "No.\nNever.",
    };
    hear(`${ERROR}${JSON.stringify(ended)}\u001b[0m`);
    hear(uncaught("Error: No."));
    vi.advanceTimersByTime(10_000);
    expect(heard).toEqual([
      "place-order 42 errored at charge card: No. Never.\n          retry it: npx millrace instances retry abc --reason …",
    ]);
  });

  it("the terminal shows that an effect happened without an output, and how to enter one before the retry", () => {
    const { heard, hear } = listener();
    const error = "The step's output is not JSON. It happened: confirm it with an output (POST /v1/effects/WyJh_-/confirm), then retry.";
    hear(`${ERROR}${JSON.stringify({ log: "ended", ...order, status: "errored", step: "pay", code: "output_not_serializable", error })}`);
    const [, say, retry] = heard[0]?.split("\n") ?? [];
    expect(say).toBe("          give its output (null if none): npx millrace effects confirm WyJh_- --reason … --output …");
    expect(retry).toBe("          then retry it: npx millrace instances retry abc --reason …");
  });

  it("the terminal shows that an instance ran with an output that an operator confirmed, and how to confirm another before the retry", () => {
    const { heard, hear } = listener();
    const hint =
      'It ran with the output that an operator confirmed for "mail": confirm it again (POST /v1/effects/WyJh_-/confirm), then retry.';
    hear(`${ERROR}${JSON.stringify({ log: "ended", ...order, status: "errored", step: "", code: "step_failed", error: "No id.", hint })}`);
    const [, retry, confirm] = heard[0]?.split("\n") ?? [];
    expect(retry).toBe("          retry it: npx millrace instances retry abc --reason …");
    expect(confirm).toMatch(/^ {10}if the confirmed output is wrong, first: npx millrace effects confirm WyJh_- /);
  });

  it("the terminal shows that an instance waits for an event, until when, and how to publish one", () => {
    const { heard, hear } = listener();
    const waiting = {
      log: "waiting",
      ...order,
      step: "wait for dns",
      event_type: "dns.verified",
      about: "a.example",
      until: "2026-12-01T00:00:00.000Z",
    };
    hear(JSON.stringify({ ...waiting, open: true }));
    hear(JSON.stringify({ ...waiting, open: false }));
    const said = "place-order 42: wait for dns, waits until 2026-12-01T00:00:00.000Z for dns.verified about a.example";
    expect(heard).toEqual([
      `${said}\n          send it: curl 'http://localhost:8787/v1/events' ${AUTH} -H 'Content-Type: application/json' -H 'Idempotency-Key: …' -d '{"type":"dns.verified","payload":{…}}'`,
      `${said}, which only steps of this deployment may emit`,
    ]);
  });

  it("the terminal shows that an instance asks a question, and how to answer it", () => {
    const { heard, hear } = listener();
    hear(JSON.stringify({ log: "waiting", ...order, step: "approve refund", approval_id: "abc-1", until: "2026-12-01T00:00:00.000Z" }));
    expect(heard).toEqual([
      "place-order 42: approve refund, waits until 2026-12-01T00:00:00.000Z for an answer\n          " +
        "answer it: npx millrace approvals approve abc-1 --reason …",
    ]);
  });

  it("the terminal shows the step that the code named when it threw between steps", () => {
    const { heard, hear } = listener();
    hear(`${ERROR}${JSON.stringify({ log: "ended", ...order, status: "errored", step: "", at: "reserve stock", error: "Twice." })}`);
    expect(heard[0]).toContain("place-order 42 errored at reserve stock: Twice.");
  });

  it("the terminal shows the file and line of the code that threw between steps", () => {
    const { heard, hear } = listener();
    hear(
      `${ERROR}${JSON.stringify({ log: "ended", ...order, status: "errored", step: "", where: "run (src/shop.ts:7:9)", error: "Bug." })}`,
    );
    expect(heard[0]).toContain("place-order 42 errored at run (src/shop.ts:7:9): Bug.");
  });

  it("the terminal shows that an effect has an unknown outcome, how to see the request, and how to enter the outcome", () => {
    const { heard, hear } = listener();
    const doubt = {
      log: "attempt",
      ...order,
      step: "mail",
      attempt: 1,
      outcome: "in_doubt",
      effect: "WyJh_-",
      code: "in_progress",
      error: "409.",
    };
    hear(`${WARNING}${JSON.stringify(doubt)}`);
    expect(heard).toEqual([
      [
        "place-order 42: mail, attempt 1, in doubt: 409.",
        "its input: npx millrace instances effects abc",
        "if it happened, with its output (null if none): npx millrace effects confirm WyJh_- --reason … --output …",
        "if it did not happen, to send it now: npx millrace effects reject WyJh_- --reason …",
      ].join("\n          "),
    ]);
  });

  it("the terminal shows that an effect happened but its rows were refused, and how to confirm the effect after a deployment", () => {
    const { heard, hear } = listener();
    const doubt = { ...{ log: "attempt", ...order, step: "mail", attempt: 1, outcome: "in_doubt" }, effect: "WyJh_-", happened: true };
    hear(`${WARNING}${JSON.stringify({ ...doubt, code: "in_doubt", error: "The effect happened and returned 1." })}`);
    expect(heard).toEqual([
      [
        "place-order 42: mail, attempt 1, in doubt: The effect happened and returned 1.",
        "its output, and the possible decisions: npx millrace instances show abc",
        "after deploying code with valid rows: npx millrace effects confirm WyJh_- --reason … --output …",
      ].join("\n          "),
    ]);
  });

  it("the terminal shows that a message became a dead letter, how to see it, and how to settle it", () => {
    const { heard, hear } = listener();
    const captured = {
      ...{ log: "delivery", queue: "shop-commands", message_type: "order.place", subject: "42", attempt: 1, outcome: "captured" },
      ...{ dead_letter: "d1-x", code: "invalid_payload", error: "`cents` is missing." },
    };
    hear(`${WARNING}${JSON.stringify(captured)}`);
    hear(JSON.stringify({ ...captured, dead_letter: "d1-y", code: "idempotency_key_reused", error: "Another payload." }));
    vi.advanceTimersByTime(10_000);
    const [look, back, up] = [
      "show it: npx millrace dead-letters show d1-x",
      "replay it: npx millrace dead-letters replay d1-x --reason …",
      "skip it: npx millrace dead-letters skip d1-x --reason …",
    ];
    const other = (command: string) => command.replaceAll("d1-x", "d1-y");
    expect(heard).toEqual([
      ["shop-commands: order.place 42 captured: `cents` is missing.", look, back, up].join("\n          "),
      ["shop-commands: order.place 42 captured: Another payload.", other(look), other(up)].join("\n          "),
    ]);
  });

  it("the terminal shows that a repair has fixed a dead letter, which needs no operator", () => {
    const { heard, hear } = listener();
    const captured = { log: "delivery", queue: "q", message_type: "order.place", subject: "42", outcome: "captured", dead_letter: "d1-x" };
    hear(`${WARNING}${JSON.stringify({ ...captured, code: "invalid_payload", error: "No cents." })}`);
    hear(JSON.stringify({ log: "repair", level: "info", queue: "q", dead_letter: "d1-x", repair: "cents", outcome: "sent" }));
    vi.advanceTimersByTime(10_000);
    expect(heard).toEqual(["q: order.place 42 captured: No cents.", 'q: the repair "cents" has repaired the dead letter d1-x']);
  });

  it("the terminal shows the first three of many failures with one cause, then the number of others, and the commands to list and retry them", () => {
    const { heard, hear } = listener();
    const ended = { log: "ended", ...order, status: "errored", step: "charge card", code: "unavailable", cause: "c0ffee", error: "No." };
    for (let nth = 0; nth < 300; nth++) {
      hear(attempt);
      hear(`${ERROR}${JSON.stringify({ ...ended, instance_id: `abc${nth}` })}\u001b[0m`);
    }
    vi.advanceTimersByTime(10_000);
    expect(heard).toHaveLength(8);
    expect(heard[6]).toBe("place-order: charge card, 297 more attempts failed with the same error, the last of The shop answered 500.");
    const [said, see, retry] = heard[7]?.split("\n          ") ?? [];
    expect(said).toBe("place-order: 297 more errored at charge card of the same cause, the last of No.");
    expect(see).toBe("see them: npx millrace instances list --cause c0ffee");
    expect(retry).toContain(`-d '{"verb":"retry","filter":{"cause":"c0ffee"},"reason":…}'`);
    vi.advanceTimersByTime(60_000);
    hear(`${ERROR}${JSON.stringify(ended)}\u001b[0m`);
    expect(heard).toHaveLength(9);
  });

  it("the terminal shows that an alert began and ended", () => {
    const { heard, hear } = listener();
    const alert = {
      log: "alert",
      alert_id: "a1",
      rule: "instances_errored",
      severity: "warning",
      workflow: "place-order",
      value: 20,
      count: 20,
    };
    hear(JSON.stringify({ ...alert, change: "firing", since: "2026-11-25T17:07:20.357Z" }));
    hear(JSON.stringify({ ...alert, change: "resolved", count: null, since: "2026-11-25T17:07:20.357Z" }));
    const which = "alert: warning instances_errored, place-order";
    expect(heard).toEqual([
      `${which} began: 20 times, value 20, since 2026-11-25T17:07:20.357Z`,
      `${which} is over: value 20, since 2026-11-25T17:07:20.357Z`,
    ]);
  });

  it("the terminal shows nothing about a recreated .wrangler folder after a change of the configuration", () => {
    const { heard, hear } = listener();
    hear(`${ERROR}Build failed with 1 error:\u001b[0m`);
    hear(`${ERROR}Could not resolve "/shop/.wrangler/tmp/bundle-x/middleware-loader.entry.ts"\u001b[0m`);
    expect(heard).toEqual([]);
  });

  it("the terminal shows that an instance is complete", () => {
    const { heard, hear } = listener();
    hear(JSON.stringify({ log: "ended", ...order, status: "complete" }));
    expect(heard).toEqual(["place-order 42 complete"]);
  });

  it("the terminal shows batches and build errors, and no access log", () => {
    const { heard, hear } = listener();
    hear('{"log":"batch","queue":"q","messages":1,"started":1}');
    hear(`${ERROR}Could not resolve x\u001b[0m`);
    hear("[wrangler:info] GET /healthz 200 OK (3ms)");
    expect(heard).toEqual(["q: 1 message, 1 started", "error: Could not resolve x"]);
  });
});
