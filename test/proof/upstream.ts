import type { Behaviour, LedgerEntry } from "../upstream/server.ts";
import { TIMEOUT_MS, type Upstream } from "./program.ts";

/** The upstream's effects on a subject, in order; if the name ends with a slash, on all subjects with that prefix. */
export async function doneTo(upstreamUrl: string, subject: string): Promise<LedgerEntry[]> {
  return (await (await fetch(`${upstreamUrl}/ledger/${encodeURIComponent(subject)}`)).json()) as LedgerEntry[];
}

/** One request of an effect. */
interface Call {
  subject: string;
  at: number;
}

/** The requests of effects on subjects with this prefix, in the upstream's order and with its times, also if no effect happened. */
export async function callsOf(upstreamUrl: string, prefix: string): Promise<Call[]> {
  return ((await (await fetch(`${upstreamUrl}/calls/${encodeURIComponent(prefix)}`)).json()) as { calls: Call[] }).calls;
}

/** The subjects with this prefix for which an effect was requested from the upstream, in that order, also if no effect happened. */
export async function askedOf(upstreamUrl: string, prefix: string): Promise<string[]> {
  return (await callsOf(upstreamUrl, prefix)).map(({ subject }) => subject);
}

const SLOW_MS = 1200;

/** Configures the upstream's treatment of the next calls about some subjects. */
export async function behave(upstreamUrl: string, behaviours: readonly Behaviour[]): Promise<void> {
  if (behaviours.length > 0) await fetch(`${upstreamUrl}/behaviours`, { method: "POST", body: JSON.stringify(behaviours) });
}

/** A program's upstream behaviour, in the upstream's own terms. */
export function behaviour(subject: string, { is, times }: Upstream): Behaviour {
  switch (is) {
    case "refuses":
      return { subject, mode: "refuse", status: 400, times };
    case "never":
      return { subject, mode: "refuse", status: 422, times };
    case "away":
      return { subject, mode: "refuse", status: 503, times };
    case "limits":
      return { subject, mode: "refuse", status: 429, times };
    case "fails":
      return { subject, mode: "fail", status: 500, times };
    case "garbles":
      return { subject, mode: "garble", times };
    case "cuts":
      return { subject, mode: "cut", times };
    case "floods":
      return { subject, mode: "flood", times };
    case "drops":
      return { subject, mode: "drop", times };
    case "busy":
      return { subject, mode: "busy", times };
    case "slow":
      return { subject, mode: "slow", delayMs: SLOW_MS, times };
    case "hangs":
      return { subject, mode: "late", delayMs: TIMEOUT_MS + 300, times };
  }
}
