import type { EngineApi } from "../../../src/http/engine-api.ts";
import { apiOf, askerOf, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import type { Engine } from "../../local/engine-process.ts";

type InstancePage = Output<EngineApi, "/v1/instances", "$get">;
type Detail = Output<EngineApi, "/v1/instances/:id", "$get">;

/** How a chain takes its steps, as its workflow and its command are named. */
export const MODES = ["platform", "lean"] as const;
export type Mode = (typeof MODES)[number];

/** A run, as far as the story tells of it. */
export type Run = Pick<Detail, "subject" | "status" | "accepted_at" | "updated_at" | "result"> & {
  cost: { usd: number; parts: { steps: { amount: number } } };
};

/** What the story asks of an engine's API. */
export function leanApi({ url, token }: Engine) {
  const ask = askerOf(url, token);
  const { enqueue } = apiOf(url, token);
  const page = async (job: string) => (await ask<InstancePage>("GET", `/v1/instances?correlation=${job}&limit=50`)).items;
  return {
    /** Has orders shipped, all of them one job. */
    async ship(mode: Mode, job: string, orders: readonly string[]): Promise<void> {
      const results = await enqueue(orders.map((order) => ({ type: `order.ship.${mode}`, payload: { order }, correlation_id: job })));
      for (const result of results) if ("problem" in result) throw new Refusal(`The engine refused an order: ${result.problem.detail}`);
    },
    page,
    /** The runs of a job, each whole. */
    runs: async (job: string): Promise<Run[]> => Promise.all((await page(job)).map(({ id }) => ask<Detail>("GET", `/v1/instances/${id}`))),
    /** Wakes the runs of a job that a killed process was at, as the platform does by itself once it is deployed. */
    async wake(mode: Mode, job: string): Promise<void> {
      const ids = (await page(job)).map(({ id }) => id);
      const answer = await fetch(`${url}/wake?workflow=SHIP_${mode.toUpperCase()}`, { method: "POST", body: JSON.stringify(ids) });
      if (!answer.ok) throw new Refusal(`The runs were not woken: ${answer.status}.`);
    },
  };
}
