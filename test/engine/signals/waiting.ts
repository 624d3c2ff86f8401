import type { Steps } from "millrace";
import { ProbeSignal } from "../../probe/messages.ts";
import { event, rows, until } from "../harness.ts";

/** An event of type `probe.signal` with this subject. */
export const say = (subject: string, value: string) => event("probe.signal", subject, { about: subject, value });

/** Waits in a run for an event with this subject. Returns the event's value, or "timeout". */
export const hear = (step: Steps, name: string, about: string, timeout = 60_000) =>
  step.waitFor(name as never, ProbeSignal, { subject: about, timeout }).then(
    ({ value }) => value,
    () => "timeout",
  );

/** Waits until a run has this number of open waits. */
export const openWaits = (id: string, count: number) =>
  until(
    () => rows("SELECT name FROM millrace_waits WHERE instance_id = ?1 AND signal_id IS NULL AND over_at IS NULL", id),
    (found) => found.length === count,
  );
