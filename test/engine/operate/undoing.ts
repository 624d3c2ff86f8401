import { instances } from "millrace/operate";
import { expect } from "vitest";
import type { LedgerEntry } from "../../upstream/server.ts";
import { operator, probeEnv, reaches, rows } from "../harness.ts";

/** The undo requests of a run in order; each names the effect that it undid. */
export async function takenBack(name: string): Promise<string[]> {
  const ledger = (await (await fetch(`${probeEnv.UPSTREAM_URL}/ledger`)).json()) as LedgerEntry[];
  return ledger.flatMap(({ subject }) =>
    subject.startsWith(`${name}/`) && subject.includes("/undo ") ? [subject.slice(name.length + 1)] : [],
  );
}

export async function undone(instanceId: string): Promise<void> {
  await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
  expect(await reaches(instanceId, "terminated", "errored", "in_doubt")).toBe("terminated");
}

export const entries = (instanceId: string) =>
  rows<{ step: string; generation: number; state: string }>(
    "SELECT step, generation, state FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position < 0, position, item, generation",
    instanceId,
  );

export const undoRows = (name: string) => rows("SELECT id FROM probe_rows WHERE kind = 'undo' AND name LIKE ?1", `${name}/%`);
