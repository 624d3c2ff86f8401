import { setTimeout as wait } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { column, paint, say, seconds } from "../terminal.ts";
import { chapter, type Stage, type Story } from "./story.ts";
import { type Delivery, type WebhooksApi, webhooksApi } from "./webhooks/api.ts";
import { type Receiver, startReceiver } from "./webhooks/receiver.ts";

const METADATA = "https://169.254.169.254/latest/meta-data/";
const WITHIN_MS = 30_000;
const LOOK_MS = 100;

export const webhooks: Story = {
  title: "signed deliveries through failure, retry and rotation",
  vars: { WEBHOOKS_ALLOW_LOCAL: "true" },
  async tell(stage) {
    const receiver = await startReceiver();
    try {
      await tell(stage, receiver);
    } finally {
      receiver.stop();
    }
  },
};

/** An endpoint, and the path of the receiver behind it. */
interface Endpoint {
  id: string;
  path: string;
}

async function tell({ engine, stop }: Stage, receiver: Receiver): Promise<void> {
  const api = webhooksApi(engine.url, engine.token);
  const beganAt = Date.now();
  const until = untilWith(stop);

  chapter(1, "Two endpoints of one receiver are registered; each secret is shown once.");
  const orders = await register(api, receiver, "/orders", ["outcome"]);
  const payouts = await register(api, receiver, "/payouts", ["payout"]);
  const refused = await api.register(METADATA, ["outcome"], "hostile").then(
    () => undefined,
    (error: Error) => error.message,
  );
  if (!refused?.includes("not public")) throw new Refusal(`${METADATA} was not refused as an address that is not public.`);
  say(`  ${paint("red", "refused")}  ${METADATA}  is an address that is not public`);

  chapter(2, "Facts are stated. The orders' receiver refuses its first request, and asks for 12 seconds of patience.");
  receiver.next(orders.path, { status: 429, headers: { "retry-after": "12" } });
  await api.state([sale("order-1"), payout("payout-1"), payout("payout-2")]);
  await until(async () => taken(receiver, payouts) === 2, "the payouts arrive");
  say(`  ${seconds(Date.now() - beganAt)}: both payouts have arrived; the order waits for its retry, and holds nobody up.`);
  await until(async () => taken(receiver, orders) === 1, "the order arrives");
  await settled(api, orders, 1, until);
  showAttempts((await api.deliveries(orders.id))[0]);

  chapter(3, "The secret is rotated: for a day every delivery carries two signatures.");
  const old = receiver.secrets.get(orders.path)?.[0] ?? "";
  const { secret } = await api.rotate(orders.id);
  receiver.secrets.set(orders.path, [old, secret]);
  await api.state([sale("order-2")]);
  await until(async () => taken(receiver, orders) === 2, "the second order arrives");
  const both = receiver.requests.findLast(({ path }) => path === orders.path);
  say(`  ${both?.signatures} signatures; the old secret verifies: ${both?.verified[0]}, the new one: ${both?.verified[1]}.`);
  if (both?.signatures !== 2 || !both.verified.every(Boolean)) throw new Refusal("The delivery was not signed by both secrets.");

  chapter(4, "The payouts' receiver answers 410 Gone: its endpoint is disabled, and nothing more is sent there.");
  receiver.next(payouts.path, { status: 410 });
  await api.state([payout("payout-3")]);
  await until(async () => !(await api.webhook(payouts.id)).enabled, "the endpoint is disabled");
  const { state, reason } = await api.webhook(payouts.id);
  say(`  ${payouts.path} is ${paint("yellow", state)}: ${reason}`);
  await api.state([payout("payout-4"), sale("order-3")]);
  await api.test(orders.id);
  await until(async () => taken(receiver, orders) === 4, "the third order and a test arrive");
  say("  A fourth payout is stated and goes nowhere; a third order and a test event arrive.");

  chapter(5, "The engine's log beside the receiver's own");
  await settled(api, orders, 4, until);
  const logs = [...(await api.deliveries(orders.id)), ...(await api.deliveries(payouts.id))];
  showLog(logs);
  const wrong = differences(receiver, orders, payouts, logs);
  if (wrong.length > 0) throw new Refusal(`The demo did not end as it should. ${wrong.join(" ")}`);
  say(`  The receiver: ${receiver.requests.length} requests, all verified; 6 deliveries taken, each under one id.`);
  say(
    `\n${paint("green", "✓")} ${paint("bold", `Every delivery was taken once, failure, patience, rotation and 410 included, in ${seconds(Date.now() - beganAt)}.`)}`,
  );
}

async function register(api: WebhooksApi, receiver: Receiver, path: string, factTypes: string[]): Promise<Endpoint> {
  const { id, secret } = await api.register(receiver.url + path, factTypes, `the demo's ${path}`);
  receiver.secrets.set(path, [secret]);
  say(`  ${paint("green", "taken")}    ${receiver.url}${path}  for ${factTypes.join(", ")}  whsec_…`);
  return { id, path };
}

function sale(fact_id: string): object {
  return {
    fact_id,
    entity: "account/demo",
    type: "outcome",
    occurred_at: new Date().toISOString(),
    payload: { account: "demo", value_cents: 4200 },
  };
}

function payout(fact_id: string): object {
  return {
    fact_id,
    entity: "partner/ada",
    type: "payout",
    occurred_at: new Date().toISOString(),
    payload: { partner: "ada", amount_cents: 420 },
  };
}

function taken(receiver: Receiver, { path }: Endpoint): number {
  return receiver.taken.get(path)?.size ?? 0;
}

type Until = (right: () => Promise<boolean>, what: string) => Promise<void>;

function untilWith(stop: AbortSignal): Until {
  return async (right, what) => {
    const endsAt = Date.now() + WITHIN_MS;
    while (!(await right())) {
      if (Date.now() > endsAt) throw new Refusal(`It did not happen within ${seconds(WITHIN_MS)} that ${what}.`);
      await wait(LOOK_MS, undefined, { signal: stop });
    }
  };
}

/** The receiver knows of a delivery a moment before it is recorded. */
function settled(api: WebhooksApi, { id }: Endpoint, count: number, until: Until): Promise<void> {
  return until(
    async () => (await api.deliveries(id)).filter(({ state }) => state === "sent").length === count,
    "the deliveries are recorded",
  );
}

function showAttempts(delivery: Delivery | undefined): void {
  const first = Date.parse(delivery?.attempts[0]?.at ?? "");
  for (const { attempt, at, status, error } of delivery?.attempts ?? []) {
    const after = seconds(Date.parse(at) - first);
    say(`  attempt ${attempt}  after ${column(after, 8)}${paint(error ? "red" : "green", String(status))}  ${error ?? "taken"}`);
  }
}

function showLog(deliveries: readonly Delivery[]): void {
  for (const { id, fact_type, fact_id, state, tried } of deliveries) {
    const name = fact_type === "webhook.test" ? fact_type : fact_id;
    say(`  ${id.slice(0, 8)}…  ${column(name, 14)}${column(state, 9)}${tried} ${tried === 1 ? "request" : "requests"}`);
  }
}

/** What differs from what the engine promises, each as a sentence. */
function differences(receiver: Receiver, orders: Endpoint, payouts: Endpoint, logs: readonly Delivery[]): string[] {
  const { requests } = receiver;
  const sent = logs.filter(({ state }) => state === "sent").map(({ id }) => id);
  const arrived = [...receiver.taken.values()].flatMap((ids) => [...ids]);
  const expectations: [boolean, string][] = [
    [requests.every(({ verified }) => verified.includes(true)), "A request was not signed."],
    [requests.length === 8, `There were ${requests.length} requests instead of 8.`],
    [requests.filter(({ status }) => status === 204).length === 6, "A delivery was not taken exactly once."],
    [taken(receiver, orders) === 4 && taken(receiver, payouts) === 2, "The receiver did not take 4 orders and 2 payouts."],
    [sent.length === 6 && sent.every((id) => arrived.includes(id)), "The log says sent of others than the receiver has."],
    [logs.filter(({ state }) => state === "gone").length === 1, "The 410 is not in the log."],
    [requests.length === logs.reduce((sum, { tried }) => sum + tried, 0), "The log counts other requests than the receiver."],
  ];
  return expectations.filter(([holds]) => !holds).map(([, sentence]) => sentence);
}
