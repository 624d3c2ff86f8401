import { project } from "millrace";
import { deliverTo } from "millrace/testing";
import { catalog, dispatch } from "millrace/worker";
import type { Route } from "../../../packages/millrace/src/topology/routes.ts";
import { routesOf, startsOf } from "../../probe/consumers.ts";
import { routedRow } from "../../probe/routing.ts";
import { followProbe } from "../../probe/workflows.ts";
import { probeEnv, rows } from "../harness.ts";

/** A consumer of `probe-events` with custom routes. */
export function routed(...routes: Route[]) {
  const consume = dispatch(catalog({ consumers: [startsOf(followProbe), routesOf(...routes)] }));
  return (bodies: unknown[], attempts = 1) => deliverTo((batch) => consume(batch, probeEnv as never), "probe-events", bodies, attempts);
}

export const keepRow = project<{ name: string }>(({ payload, envelope }) => routedRow(envelope.idempotency_key, payload.name));
export const kept = (name: string) => rows("SELECT id FROM probe_rows WHERE name = ?1", name);
export const lettersAbout = (name: string) =>
  rows<{ reason: string; error: string; attempts: number }>(
    "SELECT reason, error, attempts FROM millrace_dead_letters WHERE body LIKE ?1",
    `%${name}%`,
  );
