import { Misuse, Refusal } from "../command.ts";
import { oneLine } from "../terminal.ts";
import type { InstancePage } from "./api.ts";
import type { Asked } from "./verb.ts";
import { tell } from "./words.ts";

/**
 * The id of the instance that the user names. `latest` means the newest instance, and `latest WORKFLOW` the newest instance of a workflow.
 * Errors: a `Refusal` if no such instance exists.
 */
export async function instanceId({ api, isJson }: Pick<Asked, "api" | "isJson">, typed = ""): Promise<string> {
  const [, workflow] = /^latest(?: (.+))?$/.exec(typed) ?? [];
  if (workflow === undefined && typed !== "latest") return typed;
  const query = new URLSearchParams({ limit: "1", ...(workflow !== undefined && { workflow }) });
  const { items } = await api.get<InstancePage>(`/v1/instances?${query}`);
  const [newest] = items;
  if (!newest) throw new Refusal(`There is no instance${workflow === undefined ? "" : ` of ${oneLine(workflow)}`} yet.`);
  if (!isJson) tell(oneLine(`latest is ${newest.id}: ${newest.workflow} of ${newest.subject}.`));
  return newest.id;
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Converts a time or a duration such as `12h` to a time for the API. The duration is subtracted from the current time; if `sign` is 1, it
 * is added. Errors: a `Misuse`.
 */
export function timeOf(option: string, typed: string, sign: 1 | -1): string {
  const [, count, unit = ""] = /^(\d{1,6})([smhd])$/.exec(typed) ?? [];
  if (count !== undefined) return new Date(Date.now() + sign * Number(count) * (UNITS[unit] ?? 0)).toISOString();
  const at = Date.parse(typed);
  if (Number.isNaN(at))
    throw new Misuse(`--${option} is a time such as 2026-11-25T08:00:00Z, or a length such as 30m, 12h, 7d; got "${typed}".`);
  return new Date(at).toISOString();
}
