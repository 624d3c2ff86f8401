import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import type { ProbeStep } from "../probe/messages.ts";
import { fresh, reaches, start } from "./harness.ts";

// What a step costs is part of the promise: users pay for round trips and wait for them.

afterEach(() => vi.restoreAllMocks());

/** Counts the D1 batches that touch a run's inbox, from its start to its end. */
async function roundTrips(script: Pick<ProbeStep, "do" | "name"> & Partial<ProbeStep>): Promise<number> {
  let trips = 0;
  const prepare = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "prepare");
  const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
  batch.mockImplementation(batch.getMockImplementation() as never);
  const { instanceId } = await start(fresh(), [script]);
  await reaches(instanceId, "complete");
  trips = prepare.mock.calls.filter(([text]) => /(INTO|UPDATE|FROM) inbox/.test(text) && !text.includes("sqlite_master")).length;
  return trips;
}

it.each([
  { do: "read", trips: 0 },
  { do: "commit", trips: 1 },
  { do: "keyed", trips: 1 },
  { do: "natural", trips: 1 },
  { do: "lookup", trips: 2 },
  { do: "once", trips: 2 },
] as const)("a $do step needs $trips D1 round trips, its events and the instance's progress included", async ({ do: kind, trips }) => {
  expect(await roundTrips({ do: kind, name: "act", emit: kind !== "read" })).toBe(trips);
});
