import type { Asker } from "../../access/may-ask.ts";
import { MillraceError } from "../../contract/errors.ts";
import { nearest } from "../../contract/nearest.ts";
import { beginning } from "../../contract/text.ts";
import type { AnyBulkVerb, Catalog } from "../../topology/catalog.ts";
import { DOUBT_VERBS } from "./doubt-verbs.ts";
import { INSTANCE_VERBS } from "./instance-verbs.ts";
import { replayLetters, skipLetters } from "./letter-verbs.ts";

const ENGINE_BULK_VERBS: readonly AnyBulkVerb[] = [...INSTANCE_VERBS, replayLetters, skipLetters, ...DOUBT_VERBS];

function bulkVerbs(catalog: Catalog): readonly AnyBulkVerb[] {
  return [...ENGINE_BULK_VERBS, ...catalog.bulkVerbs];
}

/** Finds the bulk verb with a name. Errors: `invalid_payload` for an unknown name, with the known names. */
export function bulkVerb(catalog: Catalog, name: string): AnyBulkVerb {
  const all = bulkVerbs(catalog);
  const verb = all.find((one) => one.name === name);
  if (verb) return verb;
  const names = all.map((one) => one.name);
  const guess = nearest(name, names);
  const message = `must be one of ${names.join(", ")}${guess ? `: perhaps \`${guess}\` is meant` : ""}`;
  throw new MillraceError("invalid_payload", `"${beginning(name, 64)}" is not a bulk action.`, { issues: [{ path: "verb", message }] });
}

/** Checks the scopes of a token. Errors: `forbidden` for a bulk verb outside these scopes. */
export function assertMayAct({ scopes }: Pick<Asker, "scopes">, { name, scope = "operate" }: AnyBulkVerb): void {
  if (scopes.includes(scope)) return;
  throw new MillraceError("forbidden", `The bulk action ${name} requires the scope \`${scope}\`: use a token with this scope.`);
}
