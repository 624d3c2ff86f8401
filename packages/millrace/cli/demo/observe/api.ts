import type { EngineApi } from "../../../src/http/engine-api.ts";
import { apiOf, askerOf, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import type { Engine } from "../../local/engine-process.ts";

type Queues = Output<EngineApi, "/v1/queues", "$get">;
type AlertPage = Output<EngineApi, "/v1/alerts", "$get">;
type LetterPage = Output<EngineApi, "/v1/dead-letters", "$get">;
type Detail = Output<EngineApi, "/v1/instances/:id", "$get">;
type Costs = Output<EngineApi, "/v1/costs", "$get">;

export type QueueHealth = Queues["items"][number];
export type InstanceDetail = Detail;

/** What the story needs of an engine's API. */
export function observeApi({ url, token }: Engine) {
  const ask = askerOf(url, token);
  const { enqueue, instances, retry, letter, replay, setFaults, clearFaults } = apiOf(url, token);
  return {
    instances,
    retry,
    letter,
    replay,
    setFaults,
    clearFaults,
    /** Asks for an article about each keyword, all of them one job. */
    async askFor(job: string, keywords: readonly string[]): Promise<void> {
      const command = (keyword: string) => ({ type: "research.requested", payload: { brand: "acme", keyword }, correlation_id: job });
      const results = await enqueue(keywords.map(command));
      for (const result of results) if ("problem" in result) throw new Refusal(`The engine refused a command: ${result.problem.detail}`);
    },
    /** What Prometheus would scrape, line by line. */
    async metrics(): Promise<string[]> {
      const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
      if (!answer.ok) throw new Refusal(`GET /metrics answered ${answer.status}.`);
      return (await answer.text()).split("\n");
    },
    queues: () => ask<Queues>("GET", "/v1/queues?minutes=2"),
    firing: async () => (await ask<AlertPage>("GET", "/v1/alerts?state=firing")).items,
    letters: async () => (await ask<LetterPage>("GET", "/v1/dead-letters?state=open")).items,
    skip: (id: string, reason: string) => ask<unknown>("POST", `/v1/dead-letters/${id}/skip`, { reason }),
    instance: (id: string) => ask<Detail>("GET", `/v1/instances/${id}`),
    costs: () => ask<Costs>("GET", "/v1/costs"),
    /** Another program sends these to the queue of research, as they are. */
    async outsider(messages: readonly object[]): Promise<void> {
      const answer = await fetch(`${url}/outsider`, { method: "POST", body: JSON.stringify(messages) });
      if (!answer.ok) throw new Refusal(`The queue took nothing from outside: ${answer.status}.`);
    },
  };
}

export type ObserveApi = ReturnType<typeof observeApi>;
