import { env } from "cloudflare:workers";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import type { ProbeStep } from "../../probe/messages.ts";
import { fresh, reaches, start } from "../harness.ts";

// Tests the documented cost of a step in D1 round trips, because users pay for them and wait for them.

// A process queries the first run that it meets, because an earlier process may have begun that run.
beforeAll(async () => {
  const { instanceId } = await start(fresh(), [{ do: "read", name: "first" }]);
  await reaches(instanceId, "complete");
});
afterEach(() => vi.restoreAllMocks());

type Script = Pick<ProbeStep, "do" | "name"> & Partial<ProbeStep>;

/**
 * Counts the statements of each D1 batch for the steps of a run. Statements for the instance's row, such as the end of the run, read the
 * inbox in their condition and are no part of a step.
 */
async function roundTrips(...script: Script[]): Promise<number[]> {
  const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
  const { instanceId } = await start(fresh(), script);
  await reaches(instanceId, "complete");
  const asked = batch.mock.calls.map(([statements]) => statements as unknown as { statement: string; params: unknown[] }[]);
  const touchesInbox = (one: { statement: string; params: unknown[] }) =>
    !/^\s*UPDATE millrace_instances\b/.test(one.statement) &&
    /\b(INTO|UPDATE|FROM) millrace_inbox\b/.test(one.statement) &&
    JSON.stringify(one.params).includes(instanceId);
  return asked.filter((statements) => statements.some(touchesInbox)).map(({ length }) => length);
}

it.each([
  { do: "read", trips: 0 },
  { do: "commit", trips: 1 },
  { do: "keyed", trips: 1 },
  { do: "natural", trips: 1 },
  { do: "lookup", trips: 2 },
  { do: "once", trips: 2 },
] as const)(
  "a $do step needs $trips D1 round trips, including its events and the progress of the instance",
  async ({ do: kind, trips }) => {
    expect(await roundTrips({ do: kind, name: "act", emit: kind !== "read" })).toHaveLength(trips);
  },
);

it("the outcome of a step is one statement; the first outcome of a run needs a second statement to set the status `running`", async () => {
  const acts = ["first", "second", "third"].map((name): Script => ({ do: "keyed", name }));
  expect(await roundTrips(...acts)).toEqual([2, 1, 1]);
});
