import { SCOPES } from "millrace/operate";
import { onTestFinished, vi } from "vitest";
import { routing } from "../../probe/routing.ts";
import { operator, probeEnv, rows, until } from "../harness.ts";

export const reader = { ...operator, scopes: SCOPES };

export interface Letter {
  id: string;
  state: string;
  reason: string;
  error: string;
  attempts: number;
}

export const lettersAbout = (name: string) =>
  rows<Letter>("SELECT id, state, reason, error, attempts FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`);
export const outboxAbout = (name: string) =>
  rows<{ id: string; attempts: number; due_at: number }>("SELECT * FROM millrace_outbox WHERE body LIKE ?1", `%${name}%`);
export const firstLetter = (name: string) =>
  until(
    () => lettersAbout(name),
    (letters) => letters.length > 0,
  ).then(([letter]) => letter as Letter);

/** Counts the messages for a name that are sent to the event queue. */
export function sentAbout(name: string): () => number {
  const spy = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS) as Queue, "sendBatch");
  onTestFinished(() => spy.mockRestore());
  return () => spy.mock.calls.filter(([messages]) => JSON.stringify([...messages]).includes(name)).length;
}

/** The route of `probe.routed` throws for this name until the end of the test. */
export function failing(name: string): string {
  routing.failing.add(name);
  onTestFinished(() => void routing.failing.delete(name));
  return name;
}

export const kept = (name: string) => rows("SELECT id FROM probe_rows WHERE kind = 'project' AND name = ?1", name);
