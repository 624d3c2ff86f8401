import { env } from "cloudflare:workers";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import type { ProbeStep } from "../../probe/messages.ts";
import { fresh, reaches, start } from "../harness.ts";

// The cost of a step is part of the contract: users pay for round trips and wait for them.

// The first run that a process meets is looked up: a process before it may have begun that.
beforeAll(async () => {
  const { instanceId } = await start(fresh(), [{ do: "read", name: "first" }]);
  await reaches(instanceId, "complete");
});
afterEach(() => vi.restoreAllMocks());

type Script = Pick<ProbeStep, "do" | "name"> & Partial<ProbeStep>;

/** How many statements each of the D1 batches has that touch a run's inbox, from its start to its end. */
async function roundTrips(...script: Script[]): Promise<number[]> {
  const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
  const { instanceId } = await start(fresh(), script);
  await reaches(instanceId, "complete");
  const asked = batch.mock.calls.map(([statements]) => statements as unknown as { statement: string; params: unknown[] }[]);
  const touchesInbox = (one: { statement: string; params: unknown[] }) =>
    /\b(INTO|UPDATE|FROM) millrace_inbox\b/.test(one.statement) && JSON.stringify(one.params).includes(instanceId);
  return asked.filter((statements) => statements.some(touchesInbox)).map(({ length }) => length);
}

it.each([
  { do: "read", trips: 0 },
  { do: "commit", trips: 1 },
  { do: "keyed", trips: 1 },
  { do: "natural", trips: 1 },
  { do: "lookup", trips: 2 },
  { do: "once", trips: 2 },
] as const)("a $do step needs $trips D1 round trips, including its events and the instance's progress", async ({ do: kind, trips }) => {
  expect(await roundTrips({ do: kind, name: "act", emit: kind !== "read" })).toHaveLength(trips);
});

it("an outcome is one statement that returns the instance's status; the first outcome of a run needs a second one to set the status to running", async () => {
  const acts = ["first", "second", "third"].map((name): Script => ({ do: "keyed", name }));
  expect(await roundTrips(...acts)).toEqual([2, 1, 1]);
});
