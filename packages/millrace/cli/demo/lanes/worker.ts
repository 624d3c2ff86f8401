// The Worker of `npm run demo -- lanes`: lanes, a limit and a lock, and nothing else of the engine.
import { Hono } from "hono";
import {
  atomically,
  codeOf,
  defineLane,
  type LaneEnv,
  type LimitEnv,
  type LockEnv,
  limitOf,
  messageOf,
  type OnFailure,
  query,
  sendToLanes,
  sql,
  withLock,
} from "millrace";
import { breakLock, findToken, getLock, laneObjectOf } from "millrace/operate";
import { laneObject } from "millrace/worker";

export { Lock, RateLimit } from "millrace/worker";

type Env = LaneEnv & LimitEnv & LockEnv & { DB: D1Database };

/** A change of an order. `outside` is where the warehouse listens. */
interface Change {
  order: string;
  step: number;
  outside: string;
}

async function tellWarehouse({ queue, messages }: MessageBatch<Change>): Promise<void> {
  for (const message of messages) {
    const { outside, ...change } = message.body;
    const answer = await fetch(`${outside}/changes`, { method: "POST", body: JSON.stringify({ lane: queue, id: message.id, ...change }) });
    if (!answer.ok) throw new Error(`The warehouse answered ${answer.status}.`);
    message.ack();
  }
}

const lane = (name: string, onFailure: OnFailure) =>
  defineLane<Change, Env>({ name, onFailure, queue: tellWarehouse, retries: { limit: 1, initial: 200, max: 400 } });
const LANES = [lane("orders", "block"), lane("block", "block"), lane("park", "park"), lane("hold", "hold")];

export class Lanes extends laneObject(LANES) {}

/** What the carrier lets its customers do: 20 calls a second. */
const CARRIER = [{ burst: 2, refill: 20, periodMs: 1000 }];

/** Who breaks a lock. Locks are their tenant's own. */
const OPERATOR = { tenantId: "acme", actor: "demo" };

/** Closes a shop's books by what the till says. The signal is not heeded: this holder is one that notices nothing. */
function closeBooks(env: Env, shop: string, holder: string, outside: string): Promise<number> {
  return withLock(
    env,
    `books/${shop}`,
    { tenantId: OPERATOR.tenantId, ttl: "30 seconds", wait: "20 seconds", holder },
    async ({ token, fence }) => {
      const till = await fetch(`${outside}/till`, { method: "POST", body: JSON.stringify({ holder, token }) });
      const cents = Number(await till.text());
      await atomically(env.DB, [fence, sql`INSERT INTO books (shop, holder, cents) VALUES (${shop}, ${holder}, ${cents})`]);
      return cents;
    },
  );
}

const app = new Hono<{ Bindings: Env }>();
app.get("/healthz", ({ json }) => json({ ok: true }));

// It calls where it is told to: nobody but the demo tells it.
app.use(async ({ env, req, json }, next) => {
  const [, bearer = ""] = /^Bearer (\S+)$/.exec(req.header("authorization") ?? "") ?? [];
  return (await findToken(env, bearer)) ? next() : json({ detail: "Send the token of this demo." }, 401);
});

app.post("/lanes/:lane", async ({ env, req, json }) => {
  const changes = await req.json<Change[]>();
  const found = LANES.find(({ name }) => name === req.param("lane"));
  if (!found) return json({ detail: "There is no such lane." }, 404);
  const messages = changes.map((body) => ({ key: body.order, body, idempotencyKey: `${body.order}/${body.step}` }));
  const answers = await sendToLanes(env, found, messages);
  const sent = answers.flatMap((answer) => ("sent" in answer ? answer.sent : []));
  if (sent.length < changes.length) return json({ detail: `${changes.length - sent.length} changes were not kept.` }, 503);
  return json({ kept: sent.filter(({ duplicate }) => !duplicate).length, known: sent.filter(({ duplicate }) => duplicate).length });
});

const objectOf = (env: Env, lane: string, key: string) => laneObjectOf(env, { lane, tenant: null, key });
app.get("/lanes/:lane/:order", async ({ env, req, json }) => json(await objectOf(env, req.param("lane"), req.param("order")).look()));
app.post("/lanes/:lane/:order/resume", async ({ env, req, json }) =>
  json(await objectOf(env, req.param("lane"), req.param("order")).resume()),
);
app.post("/lanes/:lane/:order/resend", async ({ env, req, json }) => {
  const object = objectOf(env, req.param("lane"), req.param("order"));
  const [letter] = await object.letters();
  return json(letter ? await object.resendLetter(letter.id) : { done: false, reason: "There is no dead letter." });
});

app.post("/calls", async ({ env, req, json }) => {
  const { outside, caller } = await req.json<{ outside: string; caller: number }>();
  const limit = limitOf(env, "carrier", CARRIER);
  await limit.take();
  const answer = await fetch(`${outside}/carrier`, { method: "POST", body: JSON.stringify({ caller }) });
  await limit.heed(answer);
  return json({ status: answer.status });
});

app.post("/books", async ({ env, req, json }) => {
  const { shop, holder, outside } = await req.json<{ shop: string; holder: string; outside: string }>();
  await env.DB.exec("CREATE TABLE IF NOT EXISTS books (shop TEXT, holder TEXT, cents INTEGER)");
  return json({ cents: await closeBooks(env, shop, holder, outside) });
});
app.get("/books/:shop", async ({ env, req, json }) =>
  json(await query(env.DB, sql`SELECT holder, cents FROM books WHERE shop = ${req.param("shop")}`)),
);
app.get("/books/:shop/lock", async ({ env, req, json }) => json(await getLock(env, OPERATOR, `books/${req.param("shop")}`)));
app.post("/books/:shop/break", async ({ env, req, json }) =>
  json(await breakLock(env, OPERATOR, `books/${req.param("shop")}`, "its holder hangs")),
);

app.onError((error, { json }) => json({ code: codeOf(error), detail: messageOf(error) }, codeOf(error) === "lock_lost" ? 409 : 500));

export default app;
