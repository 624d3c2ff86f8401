import { Misuse, Refusal } from "../command.ts";
import { oneLine } from "../terminal.ts";
import type { InstancePage } from "./answers.ts";
import type { Asked } from "./verb.ts";
import { tell } from "./words.ts";

/** The id of an instance. `latest` is the newest accepted one. Errors: a `Refusal` if there is none. */
export async function instanceId({ about, api, isJson }: Pick<Asked, "about" | "api" | "isJson">): Promise<string> {
  if (about !== LATEST) return about;
  const { items } = await api.get<InstancePage>("/v1/instances?limit=1");
  const [newest] = items;
  if (!newest) throw new Refusal("There is no instance yet.");
  if (!isJson) tell(oneLine(`latest is ${newest.id}: ${newest.workflow} of ${newest.subject}.`));
  return newest.id;
}

const LATEST = "latest";

export function pathOf(collection: string, id: string, rest = ""): string {
  return `/v1/${collection}/${encodeURIComponent(id)}${rest}`;
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Converts a time or an age, such as `12h`, to a time for the API. Errors: a `Misuse`. */
export function timeOf(typed: string): string {
  const [, count, unit = ""] = /^(\d{1,6})([smhd])$/.exec(typed) ?? [];
  if (count !== undefined) return new Date(Date.now() - Number(count) * (UNITS[unit] ?? 0)).toISOString();
  const at = Date.parse(typed);
  if (Number.isNaN(at))
    throw new Misuse(`--since is a time such as 2026-11-25T08:00:00Z, or a length such as 30m, 12h, 7d; got "${typed}".`);
  return new Date(at).toISOString();
}
