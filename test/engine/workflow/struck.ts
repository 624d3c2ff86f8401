import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { keeperOf } from "millrace/worker";
import { onTestFinished } from "vitest";
import { type Strike, strikes, struck } from "../../probe/strikes.ts";
import { probeEnv, rows, until } from "../harness.ts";

/** Errors of the platform that are not the step's fault, by their cause. */
export const WORDS: Readonly<Record<string, () => Error>> = {
  "a deployment": () => new Error("Durable Object reset because its code was updated."),
  "a grace period": () => new Error("Aborting engine: Grace period complete"),
  "a lost connection": () => new Error("Network connection lost."),
  "an internal error": () => new Error("internal error; reference = 4s8du2tq9b7v"),
  "a storage failure": () => named("WorkflowInternalError", "Storage failure for charge-1 due to internal error."),
  "a lost attempt": () => named("WorkflowInternalError", "Attempt failed due to internal workflows error"),
  "a class name in the text": () => new Error("WorkflowInternalError: Attempt failed due to internal workflows error"),
  "an overload": () => new Error("Durable Object is overloaded. Requests queued for too long."),
};

function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}

/** Creates a trigger that records each change of an instance's status to `errored`, however short. */
export async function watchErrored(): Promise<void> {
  await env.DB.exec(
    "CREATE TRIGGER IF NOT EXISTS probe_errored AFTER UPDATE OF status ON millrace_instances WHEN NEW.status = 'errored' AND OLD.status <> 'errored' BEGIN INSERT INTO probe_rows (id, kind, name) VALUES (hex(randomblob(16)), 'errored', NEW.id); END",
  );
}

export async function unwatchErrored(): Promise<void> {
  await env.DB.exec("DROP TRIGGER IF EXISTS probe_errored");
}

/** Counts the transitions of these instances to `errored`. */
export async function timesErrored(ids: readonly string[]): Promise<number> {
  const found = await rows(
    "SELECT 1 FROM probe_rows WHERE kind = 'errored' AND name IN (SELECT value FROM json_each(?1))",
    JSON.stringify(ids),
  );
  return found.length;
}

/** Plans rejections of the platform for a run, until the test ends. */
export function strike(name: string, ...plan: Strike[]): void {
  strikes.set(name, plan);
  onTestFinished(() => {
    strikes.delete(name);
    struck.delete(name);
  });
}

/** Runs rounds of the keeper until all these instances have ended. Returns their statuses, in order. */
export async function afterRounds(
  ids: readonly string[],
  { patienceMs = 50_000, meanwhile }: { patienceMs?: number; meanwhile?: () => Promise<void> } = {},
): Promise<(string | undefined)[]> {
  const statuses = async () => {
    // Only these instances are checked, because a busy machine cannot check the hundreds of open instances of other tests in time.
    await env.DB.batch([
      env.DB.prepare(
        "UPDATE millrace_instances SET check_at = iif(id IN (SELECT value FROM json_each(?1)), 0, ?2) WHERE check_at IS NOT NULL",
      ).bind(JSON.stringify(ids), Date.now() + 3_600_000),
      env.DB.prepare("UPDATE millrace_outbox SET due_at = 0"),
      env.DB.prepare("UPDATE millrace_actions SET due_at = 0 WHERE applied_at IS NULL"),
    ]);
    await keeperOf(probeEnv).round();
    await meanwhile?.();
    const found = await rows<{ id: string; status: string }>(
      "SELECT id, status FROM millrace_instances WHERE id IN (SELECT value FROM json_each(?1))",
      JSON.stringify(ids),
    );
    const byId = new Map(found.map(({ id, status }) => [id, status]));
    return ids.map((id) => byId.get(id));
  };
  const ends = new Set<string | undefined>(["complete", "errored", "terminated", "skipped"]);
  return until(statuses, (all) => all.every((status) => ends.has(status)), patienceMs);
}

/** The instance id of a lab run with this name. */
export const labId = (name: string) => ids.instance("acme", "lab", name);
