interface Env {
  NOW: Fetcher;
  BEFORE: Fetcher;
}

/** The result of a round: commands per second, and D1 transactions per 100 commands. */
export interface Round {
  perSecond: number;
  transactionsPer100: number;
}

// A Worker that sends commands to a measured Worker by a service binding. Each caller sends one command after another. Without callers, the
// measured Worker consumes messages of a queue instead.
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const asked = (name: string) => searchParams.get(name) ?? "";
    const engine = asked("build") === "now" ? env.NOW : env.BEFORE;
    if (asked("callers") === "0") {
      const perSecond = await (await engine.fetch(`https://engine/intake?count=${asked("count")}`)).json<number>();
      return Response.json({ perSecond, transactionsPer100: Number.NaN } satisfies Round);
    }
    const headers = { authorization: `Bearer ${asked("token")}`, "content-type": "application/json" };
    const series = crypto.randomUUID().slice(0, 8);
    let next = 0;
    await engine.fetch(`https://engine/d1?slow=${asked("slow")}`);
    const left = Array.from({ length: Number(asked("count")) }).values();
    const start = performance.now();
    await Promise.all(
      Array.from({ length: Number(asked("callers")) }, async () => {
        for (const _ of left) {
          const body = JSON.stringify({ type: "bench.empty", payload: { id: `${series}-${next++}` } });
          const answer = await engine.fetch("https://engine/v1/commands", { method: "POST", headers, body });
          const text = await answer.text();
          if (answer.status !== 202) throw new Error(`A command was answered with ${answer.status}: ${text}`);
        }
      }),
    );
    const seconds = (performance.now() - start) / 1000;
    const transactions = await (await engine.fetch("https://engine/d1?slow=0")).json<number>();
    return Response.json({ perSecond: next / seconds, transactionsPer100: (100 * transactions) / next } satisfies Round);
  },
};
